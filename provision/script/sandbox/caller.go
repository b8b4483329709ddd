package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// caller is the thread whose call the broker answers. Everything of it is opened before the check
// that its call still waits, so that it stays the same.
type caller struct {
	broker *broker
	proc   int // its directory of /proc
	dir    int // its root directory
	mem    *os.File
	root   bool   // it runs as the sandbox's root
	umask  uint32 // its file mode creation mask
}

func (b *broker) caller(n *notif) (c *caller, err error) {
	c = &caller{broker: b, proc: -1, dir: -1}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.proc, err = unix.Openat(b.proc, strconv.Itoa(int(n.pid)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return c, err
	}
	if c.dir, err = unix.Openat(c.proc, "root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return c, err
	}
	if c.mem, err = openProc(c.proc, "mem", unix.O_RDONLY); err != nil {
		return c, err
	}
	f, err := openProc(c.proc, "status", unix.O_RDONLY)
	if err != nil {
		return c, err
	}
	defer f.Close()
	status, err := io.ReadAll(f)
	if err != nil {
		return c, err
	}
	uid, umask, err := parseStatus(string(status))
	if err != nil {
		return c, err
	}
	c.root, c.umask = uid == b.base, umask
	if !b.valid(n) {
		return c, unix.ESRCH
	}
	return c, nil
}

// parseStatus reads the effective user ID and the umask from proc_pid_status(5).
func parseStatus(text string) (uid, umask uint32, err error) {
	found := 0
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		switch {
		case key == "Uid" && len(f) == 4:
			var v uint64
			v, err = strconv.ParseUint(f[1], 10, 32)
			uid = uint32(v)
		case key == "Umask" && len(f) == 1:
			var v uint64
			v, err = strconv.ParseUint(f[0], 8, 12)
			umask = uint32(v)
		default:
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("process status line %q: %w", line, err)
		}
		found++
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("the process status has no user or umask")
	}
	return uid, umask, nil
}

func (c *caller) close() {
	for _, fd := range []int{c.proc, c.dir} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if c.mem != nil {
		c.mem.Close()
	}
}

// text copies a string of the caller's, at most most-1 bytes long; "" for a null pointer. It copies
// it once, so that the string that is checked is the string that is used.
func (c *caller) text(addr uint64, most int) (string, error) {
	if addr == 0 {
		return "", nil
	}
	if addr >= 1<<63 {
		return "", unix.EFAULT
	}
	const page = 4096
	var b []byte
	for len(b) < most {
		// Up to the end of a page, because the next one may not exist.
		part := make([]byte, min(page-int((addr+uint64(len(b)))%page), most-len(b)))
		n, err := c.mem.ReadAt(part, int64(addr)+int64(len(b)))
		if n <= 0 {
			return "", fmt.Errorf("%w: %w", unix.EFAULT, err)
		}
		if i := bytes.IndexByte(part[:n], 0); i >= 0 {
			return string(append(b, part[:i]...)), nil
		}
		b = append(b, part[:n]...)
	}
	return "", unix.ENAMETOOLONG
}

// resolve opens a path as the caller would: below its root directory, from the directory of dirfd,
// following links except those of /proc that lead out of the file system. Root inside may pass
// directories that are closed to it outside only on file systems of its own.
func (c *caller) resolve(dirfd int32, p string) (int, error) {
	if p == "" {
		return -1, unix.ENOENT
	}
	if !strings.HasPrefix(p, "/") {
		at := "cwd"
		if dirfd != unix.AT_FDCWD {
			at = "fd/" + strconv.Itoa(int(dirfd))
		}
		dir, err := c.inside(at)
		if err != nil {
			return -1, err
		}
		p = dir + "/" + p
	}
	fd := -1
	open := func() (err error) {
		fd, err = openIn(c.dir, p, 0, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
		return err
	}
	if err := c.broker.asCaller(open); err != unix.EACCES {
		return fd, err
	}
	if err := open(); err != nil {
		return -1, unix.EACCES // without revealing what exists
	}
	if id, err := mountID(fd); err != nil || !c.broker.own[id] {
		unix.Close(fd)
		return -1, unix.EACCES
	}
	return fd, nil
}

// inside returns the path of one of the caller's open directories below the caller's root
// directory.
func (c *caller) inside(link string) (string, error) {
	dir, err := readlink(c.proc, link)
	if err != nil {
		return "", err
	}
	root, err := readlink(c.proc, "root")
	if err != nil {
		return "", err
	}
	return below(root, dir)
}

// below returns dir relative to root; both are in the form that the kernel prints.
func below(root, dir string) (string, error) {
	if !path.IsAbs(dir) || !path.IsAbs(root) || strings.HasSuffix(dir, " (deleted)") {
		return "", unix.ENOENT
	}
	if dir == root {
		return "/", nil
	}
	rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return "", unix.ENOENT
	}
	return "/" + rest, nil
}

func readlink(dir int, name string) (string, error) {
	b := make([]byte, 4096)
	n, err := unix.Readlinkat(dir, name, b)
	if err != nil {
		return "", err
	}
	if n == len(b) {
		return "", unix.ENAMETOOLONG
	}
	return string(b[:n]), nil
}
