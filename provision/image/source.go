package image

import (
	"context"
	"crypto/sha256"
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

// CheckSpec refuses with ErrInvalid an import whose name, file or digest is not usable.
func CheckSpec(spec seedbed.ImageSpec) error {
	if err := seedbed.CheckName("image", spec.Name); err != nil {
		return err
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
		return seedbed.Errorf(seedbed.ErrInvalid, "%q is not a SHA-256 digest: want 64 hexadecimal digits", seedbed.Clip(s))
	}
	return nil
}

// Source is the disk that an image is made of: a file of this host, one that was
// uploaded, or a file in an OVA. It is opened once, and a file that others can
// write to is copied to where they cannot, so that what is checked is what is used.
type Source struct {
	file *os.File
	spec seedbed.ImageSpec
	// at and Size are where in the file the disk is; Allocated is the most room that a copy takes.
	at, Size, Allocated seedbed.Bytes
	// Firmware is what the OVA says; empty without one.
	Firmware seedbed.Firmware

	total   seedbed.Bytes // of the file
	archive *Archive
	disk    string  // its file in the archive
	digest  *digest // that it has by the manifest
	copied  bool    // it was not private by itself
}

// OpenSource opens the file of spec, one that was uploaded in spool; it does not
// wait for the other end of a FIFO. ErrNotFound without the file, ErrInvalid for what
// is no regular file or cannot be read.
func OpenSource(spec seedbed.ImageSpec, spool *Spool) (*Source, error) {
	path, flags := spec.Path, syscall.O_NONBLOCK|syscall.O_NOCTTY
	if spec.Upload != "" {
		path, flags = spool.path(spec.Upload), flags|syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && spec.Upload != "":
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "what was uploaded for image %s is not there any more: upload it again", spec.Name)
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
	size := seedbed.Bytes(st.Size())
	return &Source{file: f, spec: spec, Size: size, total: size, Allocated: Allocated(st)}, nil
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
// image: see Sniff and ReadOVA. The message is a predicate of the file.
func (s *Source) Look() error {
	head, err := s.head()
	if err != nil {
		return err
	}
	if !isTar(head) {
		if s.spec.Member != "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "is no OVA any more")
		}
		return s.wanted(head)
	}
	if s.archive, err = ReadOVA(s.file, s.total); err != nil {
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
		return seedbed.Errorf(seedbed.ErrInvalid, "is an OVA, and %s is asked for", seedbed.Clip(s.spec.Format))
	}
	return nil
}

// containerOVA is what an OVA is called among the formats that can be asked for.
const containerOVA = "ova"

// wanted tells whether the disk is in a format that can be used, and that was asked for.
func (s *Source) wanted(head []byte) error {
	format, err := Sniff(head, s.Size)
	if err == nil && s.spec.Format != "" && s.spec.Format != string(format) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "is in %s format, and %s is asked for", format, seedbed.Clip(s.spec.Format))
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

// Copy writes the disk into dst, an empty file, leaving out what is zero, and
// returns the SHA-256 digest of the file that it is in. ErrInvalid, a predicate of
// the file, when it has another digest than the import wants, or than an OVA's
// manifest says, or changes meanwhile.
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
	if s.spec.Upload == "" { // an upload's digest was found as it came
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
		return seedbed.Errorf(seedbed.ErrInvalid, "has the SHA-256 digest %s: want %s", sum, strings.ToLower(s.spec.SHA256))
	}
	return nil
}

// written is how far the import is when so much of the image is written, once
// there is a private file: a copy was the first half.
func (s *Source) written(percent float64) seedbed.Progress {
	part := seedbed.Bytes(percent / 100 * float64(s.Size))
	if !s.copied {
		return seedbed.Progress{Done: part, Total: s.Size}
	}
	return seedbed.Progress{Done: s.Size + part, Total: 2 * s.Size}
}

// Failed says which file an error of its import is about.
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
