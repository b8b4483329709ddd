package backup

import (
	"context"
	"fmt"

	"seedbed"
)

// Restore writes the content of a disk to to, which is all zeros, and at least as large. It checks the
// digests of the index, and of each chunk. Errors: ErrNotFound without the index or a chunk, ErrConflict for one that is damaged.
func (p *Place) Restore(
	ctx context.Context, key seedbed.BackupDiskKey, digest seedbed.Digest, to Sink, progress func(seedbed.Progress),
) error {
	x, err := p.index(ctx, key, digest)
	if err != nil {
		return err
	}
	m := meter{total: seedbed.Bytes(x.size), report: progress}
	var buffers [workers][]byte
	return each(ctx, len(x.chunks), func(ctx context.Context, worker, i int) error {
		defer m.add(x.length(i))
		if x.chunks[i] == (seedbed.Digest{}) {
			return nil
		}
		plain, _, err := p.chunk(ctx, x.chunks[i], x.length(i), buffers[worker])
		if err != nil {
			return fmt.Errorf("chunk %d of %s: %w", i, key, err)
		}
		buffers[worker] = plain
		return to.Write(ctx, plain, int64(i)*chunkSize)
	})
}
