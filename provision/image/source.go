package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"seedbed"
)

// CheckSpec refuses with ErrInvalid an import whose name, path or digest is not usable.
func CheckSpec(spec seedbed.ImageSpec) error {
	if err := seedbed.CheckName("image", spec.Name); err != nil {
		return err
	}
	if !filepath.IsAbs(spec.Path) || strings.ContainsRune(spec.Path, 0) {
		return seedbed.Errorf(seedbed.ErrInvalid, "path %q of the image is not absolute", spec.Path)
	}
	if b, err := hex.DecodeString(spec.SHA256); err != nil || len(b) != 0 && len(b) != 32 {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not a SHA-256 digest: want 64 hexadecimal digits", spec.SHA256)
	}
	return nil
}

// Source is the file that an image is made of. It is opened once, and copied to
// where nobody writes, so that what is checked is what is used. Its progress
// counts the bytes of the file twice: once for the copy, once for what is made of it.
type Source struct {
	file *os.File
	spec seedbed.ImageSpec
	// Size is the file's, and Allocated what it takes on its own file system.
	Size, Allocated seedbed.Bytes
}

// OpenSource opens the file of spec; it does not wait for the other end of a
// FIFO. ErrNotFound without the file, ErrInvalid for what is no regular file or cannot be read.
func OpenSource(spec seedbed.ImageSpec) (*Source, error) {
	f, err := os.OpenFile(spec.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "there is no file %s on this host", spec.Path)
	case err != nil:
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "the image cannot be read: %v", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "%s is not a regular file: want a disk image", spec.Path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Source{file: f, spec: spec, Size: seedbed.Bytes(st.Size()), Allocated: Allocated(st)}, nil
}

// Allocated is the room that a file takes on its own file system.
func Allocated(st os.FileInfo) seedbed.Bytes {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return seedbed.Bytes(s.Blocks * 512)
	}
	return seedbed.Bytes(st.Size())
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Look refuses with ErrInvalid, before anything is copied, what cannot be an
// image: see Sniff. The message is a predicate of the file.
func (s *Source) Look() error {
	head := make([]byte, min(s.Size, HeadSize))
	if _, err := s.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := Sniff(head, s.Size)
	return err
}

// Copy writes the file into dst, an empty file, leaving out what is zero, and
// returns its SHA-256 digest. ErrInvalid, a predicate of the file, when it has
// another digest than the import wants, or changes meanwhile.
func (s *Source) Copy(ctx context.Context, dst *os.File, progress func(seedbed.Progress)) (sum string, err error) {
	sum, err = copySparse(ctx, dst, s.file, s.Size, func(done seedbed.Bytes) {
		progress(seedbed.Progress{Done: done, Total: 2 * s.Size})
	})
	if err == nil && s.spec.SHA256 != "" && !strings.EqualFold(s.spec.SHA256, sum) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "has the SHA-256 digest %s: want %s", sum, strings.ToLower(s.spec.SHA256))
	}
	return sum, err
}

// Second is how far the import is when the copy is made, and that much of the second half.
func (s *Source) Second(percent float64) seedbed.Progress {
	return seedbed.Progress{Done: s.Size + seedbed.Bytes(percent/100*float64(s.Size)), Total: 2 * s.Size}
}

// Failed says which file an error of its import is about.
func (s *Source) Failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, seedbed.ErrInvalid):
		return fmt.Errorf("%s %w", s.spec.Path, err) // the text is a predicate
	}
	return fmt.Errorf("import %s: %w", s.spec.Path, err)
}
