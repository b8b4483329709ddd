package hook

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"seedbed"
)

// open opens the script of that name for execution. The checks are made on the open file, so that
// it cannot be replaced before it runs.
func (r *Runner) open(name string) (*os.File, error) {
	if err := seedbed.CheckName("script", name); err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(r.cfg.Dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, r.missing(err, name)
	}
	defer dir.Close()
	if err := r.safe(dir, r.cfg.Dir, unix.S_IFDIR); err != nil {
		return nil, err
	}
	// O_NONBLOCK, so that a FIFO does not block.
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	path := filepath.Join(r.cfg.Dir, name)
	if errors.Is(err, unix.ELOOP) {
		return nil, seedbed.Errorf(seedbed.ErrForbidden, "the hook script %s is a symbolic link: put the file itself there", path)
	}
	if err != nil {
		return nil, r.missing(err, name)
	}
	file := os.NewFile(uintptr(fd), path)
	err = r.safe(file, path, unix.S_IFREG)
	if err == nil {
		err = direct(file, path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// direct refuses files that the kernel would not execute by itself, but a shell might.
func direct(file *os.File, path string) error {
	var start [4]byte
	n, err := file.ReadAt(start[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return seedbed.Errorf(seedbed.ErrForbidden, "the hook script %s cannot be read: %v", path, err)
	}
	if head := string(start[:n]); strings.HasPrefix(head, "#!") || head == "\x7fELF" {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrForbidden,
		"the hook script %s is neither a program nor begins with an interpreter line such as #!/bin/sh", path)
}

func (r *Runner) missing(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOENT) {
		return seedbed.Errorf(seedbed.ErrNotFound,
			"the hook script %s does not exist in %s on this host: put an executable file of that name there, owned by root", name, r.cfg.Dir)
	}
	return seedbed.Errorf(seedbed.ErrForbidden, "the hook script %s of %s cannot be opened: %v", name, r.cfg.Dir, err)
}

// safe refuses files that users other than the owner could have written.
func (r *Runner) safe(f *os.File, path string, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s cannot be inspected: %v", path, err)
	}
	if problem := r.problem(st, kind); problem != "" {
		return seedbed.Errorf(seedbed.ErrForbidden, "%s %s", path, problem)
	}
	return nil
}

// problem returns why a file that should be of that kind is not used, or "".
func (r *Runner) problem(st unix.Stat_t, kind uint32) string {
	switch {
	case st.Mode&unix.S_IFMT != kind:
		return "is not a regular file"
	case st.Uid != 0 && st.Uid != r.owner:
		return "belongs to another user than root: run chown root on it"
	case st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0:
		return "can be written by others than its owner: run chmod go-w on it"
	case kind == unix.S_IFREG && st.Mode&unix.S_IXUSR == 0:
		return "is not executable: run chmod u+x on it"
	}
	return ""
}
