package backup

import (
	"context"
	"io"

	"seedbed"
)

// Extent is a part of a disk, in bytes.
type Extent struct{ Offset, Length int64 }

// Source is a disk that is backed up. It does not change.
type Source interface {
	io.Closer
	// Read fills b with what the disk has from an offset on. It is called by several goroutines.
	Read(ctx context.Context, b []byte, offset int64) error
	// Size is the virtual size.
	Size() seedbed.Bytes
	// Written returns the parts that may be other than zeros, in order; ok is false if that is not known.
	Written() (parts []Extent, ok bool)
	// Changed returns the parts that may differ from the base that it was opened with, in order; ok is false if that is not known, or
	// there is none.
	Changed() (parts []Extent, ok bool)
}

// Sink is a disk that is filled.
type Sink interface {
	// Write writes b at an offset. It is called by several goroutines.
	Write(ctx context.Context, b []byte, offset int64) error
}

// touched returns which chunks of a disk have bytes in the parts.
func touched(parts []Extent, chunks int) []bool {
	all := make([]bool, chunks)
	for _, e := range parts {
		if e.Length <= 0 {
			continue
		}
		for i := e.Offset / chunkSize; i <= (e.Offset+e.Length-1)/chunkSize && i < int64(chunks); i++ {
			all[i] = true
		}
	}
	return all
}

// isZero reports whether b is all zeros.
func isZero(b []byte) bool {
	for len(b) >= len(zeros) {
		if [len(zeros)]byte(b) != zeros {
			return false
		}
		b = b[len(zeros):]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

var zeros [4096]byte
