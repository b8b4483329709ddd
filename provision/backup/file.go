package backup

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"seedbed"
)

// File is a raw disk in a sparse file.
type File struct {
	*os.File
	size    int64
	written []Extent
}

// NewFile returns the disk of that size in a file, which it looks at for the parts that are not holes. Closing the disk closes the
// file, and so does an error.
func NewFile(f *os.File, size seedbed.Bytes) (*File, error) {
	r := &File{File: f, size: int64(size)}
	if err := r.look(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// look finds the parts of the file that are not holes.
func (r *File) look() error {
	st, err := r.Stat()
	if err != nil {
		return err
	}
	for end, file := int64(0), min(st.Size(), r.size); end < file; {
		start, err := r.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err == nil {
			end, err = r.Seek(start, unix.SEEK_HOLE)
		}
		if err != nil {
			return err
		}
		r.written = append(r.written, Extent{Offset: start, Length: end - start})
	}
	return nil
}

// Size implements Source.
func (r *File) Size() seedbed.Bytes { return seedbed.Bytes(r.size) }

// Written implements Source.
func (r *File) Written() ([]Extent, bool) { return r.written, true }

// Changed implements Source.
func (r *File) Changed() ([]Extent, bool) { return nil, false }

// Read implements Source. What is beyond the end of the file is zeros.
func (r *File) Read(ctx context.Context, b []byte, offset int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := r.ReadAt(b, offset)
	clear(b[n:])
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// FileSink is a raw disk in a file that is filled.
type FileSink struct {
	File *os.File
	// Need returns an error if there is no room for so much more.
	Need func(seedbed.Bytes) error
}

// Write implements Sink.
func (s FileSink) Write(ctx context.Context, b []byte, offset int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Need(seedbed.Bytes(len(b))); err != nil {
		return err
	}
	_, err := s.File.WriteAt(b, offset)
	return err
}
