package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"seedbed"
)

// maxIndex limits an index, in bytes.
const maxIndex = int64(seedbed.MaxDisk)/chunkSize*int64(len(seedbed.Digest{})) + 64*1024

// index is the names of the chunks of a disk. The zero digest stands for a chunk of zeros. It is stored as zstd of a line with its head in
// JSON, and the digests. It is not encrypted: its names are not digests that others can compute.
type index struct {
	size   int64
	chunks []seedbed.Digest
}

// indexHead is the first line of a stored index.
type indexHead struct {
	Format    int   `json:"format"`
	Size      int64 `json:"size"`
	ChunkSize int64 `json:"chunk_size"`
	Chunks    int   `json:"chunks"`
}

func chunksOf(size int64) int { return int((size + chunkSize - 1) / chunkSize) }

// length returns the length of a chunk: the last one may be shorter.
func (x *index) length(i int) int { return int(min(chunkSize, x.size-int64(i)*chunkSize)) }

// stored returns how many chunks are in the place.
func (x *index) stored() int {
	n := 0
	for _, d := range x.chunks {
		if d != (seedbed.Digest{}) {
			n++
		}
	}
	return n
}

func diskName(k seedbed.BackupDiskKey) string { return backupsDir + k.String() + indexSuffix }

const indexSuffix = ".idx"

func (c *codec) encodeIndex(x *index) ([]byte, error) {
	head, err := json.Marshal(indexHead{Format: format, Size: x.size, ChunkSize: chunkSize, Chunks: len(x.chunks)})
	if err != nil {
		return nil, err
	}
	plain := append(head, '\n')
	for _, d := range x.chunks {
		plain = append(plain, d[:]...)
	}
	return c.out.EncodeAll(plain, nil), nil
}

func (c *codec) decodeIndex(stored []byte) (*index, error) {
	plain, err := c.in.DecodeAll(stored, nil)
	if err != nil {
		return nil, damaged("%v", err)
	}
	line, digests, ok := bytes.Cut(plain, []byte{'\n'})
	var h indexHead
	if err := json.Unmarshal(line, &h); err != nil || !ok {
		return nil, damaged("it does not begin as an index does")
	}
	if h.Format != format || h.ChunkSize != chunkSize {
		return nil, seedbed.Errorf(seedbed.ErrVersion, "has format %d and chunks of %d bytes: this release knows format %d with %d", h.Format,
			h.ChunkSize, format, chunkSize)
	}
	const each = len(seedbed.Digest{})
	if h.Size < 0 || h.Size > int64(seedbed.MaxDisk) || h.Chunks != chunksOf(h.Size) || len(digests) != h.Chunks*each {
		return nil, damaged("it has %d bytes of digests for %d chunks of a disk of %d bytes", len(digests), h.Chunks, h.Size)
	}
	x := &index{size: h.Size, chunks: make([]seedbed.Digest, h.Chunks)}
	for i := range x.chunks {
		x.chunks[i] = seedbed.Digest(digests[i*each:])
	}
	return x, nil
}

// index reads the index of a disk. Unless it is zero, digest is that of the index.
func (p *Place) index(ctx context.Context, key seedbed.BackupDiskKey, digest seedbed.Digest) (*index, error) {
	if err := key.Check(); err != nil {
		return nil, err
	}
	return p.indexAt(ctx, diskName(key), digest)
}

func (p *Place) indexAt(ctx context.Context, name string, digest seedbed.Digest) (*index, error) {
	data, err := p.store.get(ctx, name, maxIndex)
	if err != nil {
		return nil, err
	}
	have := seedbed.Digest(sha256.Sum256(data))
	x := (*index)(nil)
	if digest != (seedbed.Digest{}) && have != digest {
		err = damaged("it has the SHA-256 digest %s, and its manifest says %s", have, digest)
	} else {
		x, err = p.codec.decodeIndex(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return x, nil
}

// DiskSize returns the virtual size of a disk whose index has that digest.
func (p *Place) DiskSize(ctx context.Context, key seedbed.BackupDiskKey, digest seedbed.Digest) (seedbed.Bytes, error) {
	x, err := p.index(ctx, key, digest)
	if err != nil {
		return 0, err
	}
	return seedbed.Bytes(x.size), nil
}
