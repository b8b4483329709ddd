//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"seedbed"
	"seedbed/provision/image"
)

// copyIn gives a file with the disk of the source that nobody else writes to, and
// the source's SHA-256 digest: of an upload the file as it is, else a copy in the
// scratch directory that has no name, and is gone with its last opening, which
// drop ends. What cannot be an image is refused before anything is copied.
func (p *Pool) copyIn(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (_ *os.File, sum string, drop func(), err error) {
	if err := src.Look(); err != nil {
		return nil, "", nil, err
	}
	if f, sum, ok := src.Uploaded(); ok {
		return f, sum, func() {}, nil
	}
	dst, err := os.CreateTemp(p.cfg.Scratch, "seedbed-import-*")
	if err != nil {
		return nil, "", nil, fmt.Errorf("make a private copy: %w", err)
	}
	err = os.Remove(dst.Name())
	if err == nil {
		sum, err = src.Copy(ctx, dst, progress)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = seedbed.Errorf(seedbed.ErrFull, "no room for a private copy of %s in the scratch directory %s: %v", human(src.Size), p.cfg.Scratch, err)
	}
	if err != nil {
		return nil, "", nil, errors.Join(err, dst.Close())
	}
	return dst, sum, func() { dst.Close() }, nil
}

// procPath is a path at which other processes of root find an open file that has no name (proc_pid_fd(5)).
func procPath(f *os.File) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
}
