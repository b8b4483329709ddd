package backup

import (
	"bytes"
	"context"

	"seedbed"
)

// Copy writes the content of a disk to to, which is all zeros and at least as large. progress may be nil.
func Copy(ctx context.Context, src Source, to Sink, progress func(seedbed.Progress)) error {
	m := meter{total: src.Size(), report: progress}
	var buffers [workers][]byte
	all := filled(src)
	return each(ctx, len(all), func(ctx context.Context, worker, i int) error {
		n := chunkLength(src.Size(), i)
		defer m.add(n)
		if !all[i] {
			return nil
		}
		b := sized(&buffers[worker], n)
		if err := src.Read(ctx, b, int64(i)*chunkSize); err != nil || isZero(b) {
			return err
		}
		return to.Write(ctx, b, int64(i)*chunkSize)
	})
}

// Compare returns ErrConflict unless a copy has the content of a disk, and then zeros. progress may be nil.
func Compare(ctx context.Context, src, made Source, progress func(seedbed.Progress)) error {
	if made.Size() < src.Size() {
		return seedbed.Errorf(seedbed.ErrConflict, "the copy has %s, and not %s", made.Size(), src.Size())
	}
	m := meter{total: src.Size(), report: progress}
	var had, has [workers][]byte
	all, also := filled(src), filled(made)
	return each(ctx, len(all), func(ctx context.Context, worker, i int) error {
		n := chunkLength(src.Size(), i)
		defer m.add(n)
		if !all[i] && !also[i] {
			return nil
		}
		want, got := sized(&had[worker], n), sized(&has[worker], n)
		if err := src.Read(ctx, want, int64(i)*chunkSize); err != nil {
			return err
		}
		if err := made.Read(ctx, got, int64(i)*chunkSize); err != nil {
			return err
		}
		if !bytes.Equal(want, got) {
			return seedbed.Errorf(seedbed.ErrConflict, "the copy differs from what was copied, within %s after byte %d", seedbed.Bytes(n),
				int64(i)*chunkSize)
		}
		return nil
	})
}

// filled returns which chunks of a disk may be other than zeros.
func filled(src Source) []bool {
	parts, known := src.Written()
	if !known {
		parts = []Extent{{Length: int64(src.Size())}}
	}
	return touched(parts, chunksOf(int64(src.Size())))
}

// chunkLength returns the length of a chunk of a disk of that size.
func chunkLength(size seedbed.Bytes, i int) int {
	return int(min(chunkSize, int64(size)-int64(i)*chunkSize))
}

// sized returns n bytes of a buffer, which it makes if there is none.
func sized(b *[]byte, n int) []byte {
	if *b == nil {
		*b = make([]byte, chunkSize)
	}
	return (*b)[:n]
}
