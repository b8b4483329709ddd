package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"seedbed"
)

// CheckSpec returns ErrInvalid for an import whose name, file or digest is not usable.
func CheckSpec(spec seedbed.ImageSpec) error {
	if err := seedbed.CheckQualifiedName("image", spec.Name); err != nil {
		return err
	}
	if spec.From != "" {
		if spec.Path+spec.Upload+spec.SHA256+spec.Member+spec.Format != "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "image %s cannot be made from a volume and from a file", spec.Name)
		}
		return spec.CopySource.Check()
	}
	if spec.Upload != "" {
		if err := checkUpload(spec.Upload); err != nil || spec.Path != "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "upload %q of the image is not usable", seedbed.Clip(spec.Upload))
		}
	} else if !filepath.IsAbs(spec.Path) || strings.ContainsRune(spec.Path, 0) {
		return seedbed.Errorf(seedbed.ErrInvalid, "path %q of the image is not absolute", spec.Path)
	}
	if spec.Member != "" && checkMember(spec.Member) != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not the name of a disk in an OVA", seedbed.Clip(spec.Member))
	}
	return checkDigest(spec.SHA256)
}

func checkDigest(s string) error {
	if b, err := hex.DecodeString(s); err != nil || len(b) != 0 && len(b) != sha256.Size {
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not a SHA-256 digest: expected 64 hexadecimal digits", seedbed.Clip(s))
	}
	return nil
}

// Source is the disk from which an image is made: a file of this host, an uploaded file, or a file
// in an OVA. It is opened once. A file to which others can write is copied to where they cannot, so
// that the file that is checked is the file that is used.
type Source struct {
	file *os.File
	spec seedbed.ImageSpec
	// at and Size are the place of the disk in the file. Allocated is the most space that a copy
	// takes.
	at, Size, Allocated seedbed.Bytes
	// Firmware is the OVA's firmware; empty for other files.
	Firmware seedbed.Firmware

	total   seedbed.Bytes // of the file
	archive *Archive
	disk    string  // name of its file in the archive
	digest  *digest // according to the manifest
	copied  bool    // it was copied to make it private
}

// OpenSource opens the file of spec, which from allows, or an uploaded file in spool. It does not wait
// for the other end of a FIFO. It returns ErrNotFound if the file does not exist or is not allowed, and
// ErrInvalid if it is not a regular file or cannot be read.
func OpenSource(spec seedbed.ImageSpec, spool *Spool, from Imports) (*Source, error) {
	f, err := from.open(spec, spool)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "%s is not a regular file: expected a disk image", spec.Path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	size := seedbed.Bytes(st.Size())
	return &Source{file: f, spec: spec, Size: size, total: size, Allocated: Allocated(st)}, nil
}

// CheckSource returns the error of CheckSpec or OpenSource for a file that is to be imported. It does
// not read the file.
func CheckSource(spec seedbed.ImageSpec, from Imports) error {
	if err := CheckSpec(spec); err != nil {
		return err
	}
	src, err := OpenSource(seedbed.ImageSpec{Path: spec.Path}, nil, from)
	if err != nil {
		return err
	}
	return src.Close()
}

// Allocated returns the space that a file takes on its own file system.
func Allocated(st os.FileInfo) seedbed.Bytes {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return seedbed.Bytes(s.Blocks * 512)
	}
	return seedbed.Bytes(st.Size())
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Look returns ErrInvalid, before anything is copied, for a file that cannot be an image: see Sniff
// and ReadOVA. The message is a predicate of the file.
func (s *Source) Look(ctx context.Context) error {
	head, err := s.head()
	if err != nil {
		return err
	}
	if !isTar(head) {
		if s.spec.Member != "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "is no longer an OVA")
		}
		return s.wanted(head)
	}
	if s.archive, err = ReadOVA(ctx, s.file, s.total); err != nil {
		return err
	}
	disk, err := s.archive.disk(s.spec.Member)
	if err != nil {
		return err
	}
	if d, ok := s.archive.manifest[disk.File]; ok {
		s.digest = &d
	}
	s.disk, s.at, s.Size, s.Firmware = disk.File, s.archive.members[disk.File].at, disk.Size, s.archive.Firmware
	s.Allocated = min(s.Allocated, s.Size)
	if head, err = s.head(); err != nil {
		return err
	}
	if _, err := Sniff(head, s.Size); err != nil {
		return fmt.Errorf("has the disk %q, which %w", seedbed.Clip(disk.File), err)
	}
	if s.spec.Format != "" && s.spec.Format != containerOVA {
		return seedbed.Errorf(seedbed.ErrInvalid, "is an OVA, but %s was requested", seedbed.Clip(s.spec.Format))
	}
	return nil
}

// containerOVA is the name of OVAs among the formats that can be requested.
const containerOVA = "ova"

// wanted reports whether the disk is in a usable format, and in the one that was requested.
func (s *Source) wanted(head []byte) error {
	format, err := Sniff(head, s.Size)
	if err == nil && s.spec.Format != "" && s.spec.Format != string(format) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "is in %s format, but %s was requested", format, seedbed.Clip(s.spec.Format))
	}
	return err
}

func (s *Source) head() ([]byte, error) {
	head := make([]byte, min(s.Size, HeadSize))
	if _, err := s.file.ReadAt(head, int64(s.at)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head, nil
}

// Copy writes the disk to dst, an empty file, without its zeros, and returns the SHA-256 digest of
// the file that contains it. It returns ErrInvalid, with a predicate of the file, if the digest
// differs from the one that the import requires or the OVA's manifest has, or if the file changes
// during the copy.
func (s *Source) Copy(ctx context.Context, dst *os.File, progress func(seedbed.Progress)) (sum string, err error) {
	report := func(done seedbed.Bytes) { progress(seedbed.Progress{Done: done, Total: 2 * s.Size}) }
	if s.archive == nil {
		if sum, err = copySparse(ctx, dst, s.file, s.Size, report); err != nil {
			return sum, err
		}
		return sum, s.expect(sum)
	}
	disk := io.Reader(io.NewSectionReader(s.file, int64(s.at), int64(s.Size)))
	whole := sha256.New()
	if s.spec.Upload == "" { // an upload was hashed when it was received
		if err := hashPart(ctx, whole, s.file, 0, s.at); err != nil {
			return "", err
		}
		disk = io.TeeReader(disk, whole)
	}
	if s.digest != nil {
		h := s.digest.hash()
		disk = io.TeeReader(disk, h)
		defer func() {
			if err == nil {
				err = s.digest.check(s.disk, h)
			}
		}()
	}
	if _, err := copySparse(ctx, dst, disk, s.Size, report); err != nil {
		return "", err
	}
	if s.spec.Upload != "" {
		return s.spec.SHA256, nil
	}
	if err := hashPart(ctx, whole, s.file, s.at+s.Size, s.total); err != nil {
		return "", err
	}
	sum = hex.EncodeToString(whole.Sum(nil))
	return sum, s.expect(sum)
}

func (s *Source) expect(sum string) error {
	if s.spec.SHA256 != "" && !strings.EqualFold(s.spec.SHA256, sum) {
		return seedbed.Errorf(seedbed.ErrInvalid, "has the SHA-256 digest %s: expected %s", sum, strings.ToLower(s.spec.SHA256))
	}
	return nil
}

// written returns the progress of the import when that share of the image is written and there is a
// private file: copying was the first half.
func (s *Source) written(percent float64) seedbed.Progress {
	part := seedbed.Bytes(percent / 100 * float64(s.Size))
	if !s.copied {
		return seedbed.Progress{Done: part, Total: s.Size}
	}
	return seedbed.Progress{Done: s.Size + part, Total: 2 * s.Size}
}

// Failed adds the file to an error of its import.
func (s *Source) Failed(err error) error {
	what := s.spec.Path
	if s.spec.Upload != "" {
		what = "the uploaded file"
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, seedbed.ErrInvalid):
		return fmt.Errorf("%s %w", what, err) // the text is a predicate
	}
	return fmt.Errorf("import %s: %w", what, err)
}
