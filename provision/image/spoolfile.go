package image

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// volumeDigits is how many digits of the ID of a file to be downloaded stand for its volume.
const volumeDigits = 32

// WriteDownload makes a file to be downloaded, raw or qcow2, and returns its size. fill writes the disk of that size to a sparse raw file.
// Files with the same first 32 digits are removed. It returns ErrFull if there is no space. Its errors have no path.
func (s *Spool) WriteDownload(
	ctx context.Context, id string, format Format, size seedbed.Bytes, fill func(*os.File) error,
) (seedbed.Bytes, error) {
	if err := checkUpload(id); err != nil {
		return 0, err
	}
	if format != Raw && format != QCOW2 || len(id) <= volumeDigits {
		return 0, seedbed.Errorf(seedbed.ErrInvalid, "file %s in format %q: expected a longer ID, and qcow2 or raw", id,
			seedbed.Clip(string(format)))
	}
	raw, made := s.path(id)+partSuffix, s.path(id[:volumeDigits]+"q"+id[volumeDigits+1:])+partSuffix
	n, err := s.writeDownload(ctx, id, format, size, raw, made, fill)
	if err != nil {
		s.remove(raw)
		s.remove(made)
		return 0, pathless(noRoom(room(err)))
	}
	return n, nil
}

// writeDownload is WriteDownload with the names of the files until they are complete: the raw one, and the converted one.
func (s *Spool) writeDownload(
	ctx context.Context, id string, format Format, size seedbed.Bytes, raw, made string, fill func(*os.File) error,
) (seedbed.Bytes, error) {
	if err := s.sweep(false); err != nil {
		return 0, err
	}
	if err := s.dropEarlier(id[:volumeDigits]); err != nil {
		return 0, err
	}
	if err := s.need(0); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(raw, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	err = f.Truncate(int64(size))
	if err == nil {
		err = fill(f)
	}
	if err == nil && format == Raw {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	whole := raw
	if format == QCOW2 {
		if err := s.toQCOW2(ctx, raw, made, size); err != nil {
			return 0, err
		}
		s.remove(raw)
		whole = made
	}
	st, err := os.Stat(whole)
	if err != nil {
		return 0, err
	}
	return seedbed.Bytes(st.Size()), s.keep(whole, id)
}

// toQCOW2 converts a raw disk to a new qcow2 file.
func (s *Spool) toQCOW2(ctx context.Context, raw, to string, size seedbed.Bytes) error {
	takes, err := Measure(ctx, raw, Raw)
	if err == nil {
		err = s.need(takes)
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	limits := changing
	limits.FileSize = size + size/64 + slack
	_, err = onFile(ctx, raw, command.Command{Timeout: longTime, Limits: limits,
		Args: []string{"convert", "-f", string(Raw), "-O", string(QCOW2), inherited, to}}, to)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// dropEarlier removes the files of a volume, complete or not.
func (s *Spool) dropEarlier(volume string) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), volume) && e.Type().IsRegular() {
			s.remove(s.path(e.Name()))
		}
	}
	return nil
}

// OpenDownload opens a file that WriteDownload has made. It returns ErrNotFound if there is none.
func (s *Spool) OpenDownload(id string) (io.ReadCloser, error) {
	if err := checkUpload(id); err != nil {
		return nil, err
	}
	f, err := os.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "the file no longer exists: it was downloaded, or made more than a day ago, or the "+
			"volume was downloaded again after it: make it again (seedbed volume download)")
	}
	if err != nil {
		return nil, pathless(err)
	}
	return f, nil
}

// pathless returns an error of the file system without the path.
func pathless(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
