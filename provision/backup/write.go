package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"seedbed"
)

// Write writes a disk. If base is the key of a disk in the place that is the base which src was opened with, only what has changed since
// is read. progress may be nil; it is called from one goroutine at a time. An index that exists is replaced. Errors: ErrInvalid for a
// place whose NameKey is needed, or a disk that is too large, ErrFull, ErrUnavailable, and those of src.
func (p *Place) Write(
	ctx context.Context, key seedbed.BackupDiskKey, src Source, base *seedbed.BackupDiskKey, progress func(seedbed.Progress),
) (seedbed.BackupDisk, error) {
	size := src.Size()
	switch err := key.Check(); {
	case err != nil:
		return seedbed.BackupDisk{}, err
	case size > seedbed.MaxDisk:
		return seedbed.BackupDisk{}, seedbed.Errorf(seedbed.ErrInvalid, "disk of %s: backups take at most %s", size,
			seedbed.Bytes(seedbed.MaxDisk))
	case p.seal.sealed() && p.seal.key == nil:
		return seedbed.BackupDisk{}, seedbed.Errorf(seedbed.ErrInvalid,
			"the place of backups is encrypted: the key of the names of its chunks is needed to write to it")
	}
	x := &index{size: int64(size), chunks: make([]seedbed.Digest, chunksOf(int64(size)))}
	w := &writer{Place: p, src: src, index: x, meter: meter{total: size, report: progress}, seen: map[seedbed.Digest]bool{},
		known: map[seedbed.Digest]bool{}}
	if err := w.plan(ctx, base); err != nil {
		return seedbed.BackupDisk{}, err
	}
	if err := each(ctx, len(x.chunks), w.chunk); err != nil {
		return seedbed.BackupDisk{}, err
	}
	return w.finish(ctx, key)
}

// writer writes one disk.
type writer struct {
	*Place
	src   Source
	index *index
	meter meter
	// base is the index of the base; nil without one. changed and written are which chunks may differ from it, or be other than zeros;
	// nil for all.
	base             *index
	changed, written []bool
	buffers          [workers]struct{ plain, stored []byte }

	mu    sync.Mutex
	seen  map[seedbed.Digest]bool // which chunks this call has put or found, or is about to
	known map[seedbed.Digest]bool // those of the base that it has found
	read  int64
	added int
	bytes int64
}

// plan finds out what must be read.
func (w *writer) plan(ctx context.Context, base *seedbed.BackupDiskKey) error {
	n := len(w.index.chunks)
	if parts, ok := w.src.Written(); ok {
		w.written = touched(parts, n)
	}
	parts, ok := w.src.Changed()
	if base == nil || !ok {
		return nil
	}
	x, err := w.Place.index(ctx, *base, seedbed.Digest{})
	if errors.Is(err, seedbed.ErrNotFound) || isDamaged(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the index of the backup before: %w", err)
	}
	w.base, w.changed = x, touched(parts, n)
	return nil
}

// chunk writes one chunk.
func (w *writer) chunk(ctx context.Context, worker, i int) error {
	length := w.index.length(i)
	defer w.meter.add(length)
	if w.base != nil && !w.changed[i] && i < len(w.base.chunks) && w.base.length(i) == length {
		name := w.base.chunks[i]
		there := name == seedbed.Digest{}
		if !there {
			var err error
			if there, err = w.found(ctx, name); err != nil {
				return err
			}
		}
		if there {
			w.index.chunks[i] = name
			return nil
		}
	} else if w.written != nil && !w.written[i] {
		return nil
	}
	b := &w.buffers[worker]
	if b.plain == nil {
		b.plain = make([]byte, chunkSize)
	}
	plain := b.plain[:length]
	if err := w.src.Read(ctx, plain, int64(i)*chunkSize); err != nil {
		return fmt.Errorf("read the disk at %d: %w", int64(i)*chunkSize, err)
	}
	w.mu.Lock()
	w.read += int64(length)
	w.mu.Unlock()
	if isZero(plain) {
		return nil
	}
	name := w.seal.name(plain)
	w.index.chunks[i] = name
	if there, err := w.have(ctx, name); err != nil || there {
		return err
	}
	stored, err := w.codec.encode(plain, b.stored)
	if err != nil {
		return err
	}
	if !w.seal.sealed() {
		b.stored = stored
	}
	if err := w.store.put(ctx, chunkName(name), stored); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.added++
	w.bytes += int64(len(stored))
	return nil
}

// have reports whether a chunk whose content was read is in the place, and stays there until this backup is complete. If not, the caller
// puts it.
func (w *writer) have(ctx context.Context, name seedbed.Digest) (bool, error) {
	w.mu.Lock()
	seen := w.seen[name]
	w.seen[name] = true
	w.mu.Unlock()
	if seen { // or it soon is, or all fails
		return true, nil
	}
	return w.store.renew(ctx, chunkName(name))
}

// found is have for a chunk that only the base names. It does not count on a chunk that another goroutine is about to put: the content that
// is read may have another name.
func (w *writer) found(ctx context.Context, name seedbed.Digest) (bool, error) {
	w.mu.Lock()
	known := w.known[name]
	w.mu.Unlock()
	if known {
		return true, nil
	}
	there, err := w.store.renew(ctx, chunkName(name))
	if there {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.known[name], w.seen[name] = true, true
	}
	return there, err
}

// finish writes the index, once all chunks are durable.
func (w *writer) finish(ctx context.Context, key seedbed.BackupDiskKey) (disk seedbed.BackupDisk, err error) {
	data, err := w.codec.encodeIndex(w.index)
	if err == nil {
		err = w.store.sync(ctx)
	}
	if err == nil {
		err = w.store.put(ctx, diskName(key), data)
	}
	if err == nil {
		err = w.store.sync(ctx)
	}
	return seedbed.BackupDisk{
		Disk: key.Disk, Size: seedbed.Bytes(w.index.size), Chunks: w.index.stored(), New: w.added, Read: seedbed.Bytes(w.read),
		Stored: seedbed.Bytes(w.bytes), Index: sha256.Sum256(data),
	}, err
}
