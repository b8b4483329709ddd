package image

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"

	"seedbed"
	"seedbed/internal/command"
)

// diskIn returns the size of the disk in the file of a volume, which must be usable by itself: see SniffDisk and Info.Check.
func diskIn(ctx context.Context, path, want string) (seedbed.Bytes, error) {
	info, err := inspectDisk(ctx, path, want)
	return info.Size, err
}

// inspectDisk is Inspect for a disk that need not boot: see SniffDisk.
func inspectDisk(ctx context.Context, path, want string) (Info, error) {
	head, size, err := headOf(path)
	if err != nil {
		return Info{}, err
	}
	format, err := SniffDisk(head, size, want)
	if err != nil {
		return Info{}, err
	}
	return inspect(ctx, path, format)
}

// OpenDisk opens the disk in an uploaded file as a raw disk of the returned size: a sparse file of the spool, which disappears when it is
// closed. The upload stays. want is the format that the file must have; empty means either. Errors: ErrInvalid if the file is not a usable
// image, or is no longer there, and ErrFull without room.
func (s *Spool) OpenDisk(ctx context.Context, id, want string) (*os.File, seedbed.Bytes, error) {
	if err := checkUpload(id); err != nil {
		return nil, 0, err
	}
	st, err := os.Lstat(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, seedbed.Errorf(seedbed.ErrInvalid, "the uploaded file no longer exists: upload it again")
	}
	if err == nil && !st.Mode().IsRegular() {
		err = seedbed.Errorf(seedbed.ErrInvalid, "is not a regular file")
	}
	var info Info
	if err == nil {
		info, err = inspectDisk(ctx, s.path(id), want)
	}
	var takes seedbed.Bytes
	if err == nil {
		takes, err = Measure(ctx, s.path(id), info.Format)
	}
	if err == nil {
		err = s.need(takes)
	}
	var f *os.File
	if err == nil {
		f, err = s.convert(ctx, s.path(id), info)
	}
	src := Source{spec: seedbed.ImageSpec{Upload: id}}
	return f, info.Size, src.Failed(err)
}

// convert writes the disk in an image to a raw file, which has a name only in the meantime. By that OpenSpool finds what a crash leaves.
func (s *Spool) convert(ctx context.Context, from string, info Info) (*os.File, error) {
	to := s.path(rand.Text()) + partSuffix
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, noRoom(err)
	}
	defer s.remove(to)
	limits := changing
	limits.FileSize = info.Size + slack
	_, err = onFile(ctx, from, command.Command{Timeout: longTime, Limits: limits,
		Args: []string{"convert", "-f", string(info.Format.driver()), "-O", string(Raw), inherited, to}}, to)
	if e := (*command.Error)(nil); errors.As(err, &e) && e.Err == nil && strings.Contains(e.Line, "error while reading") {
		err = unreadable(err)
	}
	if err != nil {
		return nil, errors.Join(room(err), f.Close())
	}
	return f, nil
}
