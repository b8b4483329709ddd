package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"seedbed"
)

// Imports are the absolute directories on this host from which files may be imported, with all that is
// below them. If there are none, a file may be imported that its owner lets every user read: the
// worker is root, and could otherwise show an operator any disk of the host, such as those of other
// instances.
type Imports []string

// openFlags open a file without waiting for the other end of a FIFO.
const openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

// open opens the file of spec.
func (i Imports) open(spec seedbed.ImageSpec, spool *Spool) (*os.File, error) {
	if spec.Upload != "" {
		f, err := os.OpenFile(spool.path(spec.Upload), openFlags|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = seedbed.Errorf(seedbed.ErrInvalid, "the file uploaded for image %s no longer exists: upload it again", spec.Name)
		} else if err != nil {
			err = unopened(err)
		}
		return f, err
	}
	if len(i) > 0 {
		return i.below(spec.Path)
	}
	f, err := os.OpenFile(spec.Path, unix.O_PATH, 0)
	if err == nil {
		var st os.FileInfo
		if st, err = f.Stat(); err == nil && (st.Mode().Perm()&0o004 == 0 || st.Mode().Type() == fs.ModeSocket) {
			err = fs.ErrNotExist // what the file is, and that it is there, is not for everyone
		}
		if err == nil {
			return readable(f)
		}
		_ = f.Close()
	}
	if hidden(err) {
		return nil, seedbed.Errorf(seedbed.ErrNotFound, "file %s does not exist on this host, or not every user may read it: make it readable "+
			"(chmod o+r), upload it (seedbed image upload), or list its directory in storage.import_dirs", spec.Path)
	}
	return nil, unopened(err)
}

// hidden reports whether an error of open(2) would say what there is at a path: nothing, a file in
// place of a directory, a symbolic link or a socket.
func hidden(err error) bool {
	for _, of := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.ELOOP, unix.ENXIO} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// below opens a file in one of the directories. Symbolic links may not lead out of it.
func (i Imports) below(path string) (*os.File, error) {
	path = filepath.Clean(path)
	for _, dir := range i {
		rest, err := filepath.Rel(dir, path)
		if err != nil || rest == "." || rest == ".." || strings.HasPrefix(rest, "../") {
			continue
		}
		root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		fd, err := unix.Openat2(root, rest, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
		_ = unix.Close(root)
		switch {
		case err == nil:
			return readable(os.NewFile(uintptr(fd), path))
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EXDEV):
			return nil, unopened(&fs.PathError{Op: "open", Path: path, Err: err})
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "file %s does not exist in a directory of this host from which files may be imported: "+
		"expected one of storage.import_dirs (%s), or upload it (seedbed image upload)", path, strings.Join(i, ", "))
}

// readable opens a regular file that was found (O_PATH). It returns anything else as it was found,
// because opening a device can be an order to it: a watchdog restarts the host.
func readable(found *os.File) (*os.File, error) {
	st, err := found.Stat()
	if err == nil && !st.Mode().IsRegular() {
		return found, nil
	}
	defer found.Close()
	if err != nil {
		return nil, unopened(err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", found.Fd()), openFlags, 0)
	if err != nil {
		return nil, unopened(&fs.PathError{Op: "open", Path: found.Name(), Err: err})
	}
	return os.NewFile(uintptr(fd), found.Name()), nil
}

func unopened(err error) error {
	return seedbed.Errorf(seedbed.ErrInvalid, "the image cannot be read: %v", err)
}
