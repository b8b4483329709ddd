package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// Socket is a Unix socket to serve.
type Socket struct {
	Path string
	// Mode holds its permissions. Connecting needs the write permission.
	Mode fs.FileMode
	// Group is the name of its group. Empty leaves the process's own.
	Group string
	// DirOwner gives it to the user who owns its directory. Root does that for a user who calls it.
	DirOwner bool
	// Log is told if another program removes the socket. Nil is silent.
	Log *slog.Logger

	look time.Duration // for tests; see socketLook
}

// Listen serves the socket. It creates a missing directory. It replaces an existing socket only if
// no program answers on it; otherwise it returns seedbed.ErrInUse. No other user can connect before
// owner, group and mode are set. The directory may belong to another user: whatever that user puts
// into it, no other file changes its owner or mode. If another program removes the socket later, the
// listener makes it again.
func (s Socket) Listen(ctx context.Context) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, s.Path); err != nil {
		return nil, err
	}
	ln, err := s.make(ctx)
	if err != nil {
		return nil, err
	}
	return s.serveOn(ctx, ln), nil
}

// make makes the socket, which must not exist, in its directory, which must.
func (s Socket) make(ctx context.Context) (*net.UnixListener, error) {
	gid, err := groupID(s.Group)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(s.Path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	uid := -1
	if s.DirOwner {
		var st unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
			return nil, fmt.Errorf("find the owner of %s: %w", dir.Name(), err)
		}
		uid = int(st.Uid)
	}
	ln, err := s.listenIn(ctx, dir, uid, gid)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.Path, err)
	}
	return ln, nil
}

// made is the socket's name while only this process can reach it.
const made = "socket"

// listenIn makes the socket in a directory that only this process's user can enter, gives it its
// owner, group and mode there, and moves it to its place in dir.
func (s Socket) listenIn(ctx context.Context, dir *os.File, uid, gid int) (*net.UnixListener, error) {
	private, remove, err := privateDir(dir)
	if err != nil {
		return nil, err
	}
	defer remove()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", private.Fd(), made)
	ln, err := listenPrivate(ctx, path)
	if err != nil {
		return nil, err
	}
	if uid >= 0 || gid >= 0 {
		err = os.Lchown(path, uid, gid)
	}
	if err == nil {
		err = os.Chmod(path, s.Mode)
	}
	if err == nil {
		err = unix.Renameat2(int(private.Fd()), made, int(dir.Fd()), filepath.Base(s.Path), unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, unix.EEXIST) {
		err = seedbed.Errorf(seedbed.ErrInUse, "another process made it in the same moment")
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close(), unix.Unlinkat(int(private.Fd()), made, 0))
	}
	return ln, nil
}

// privateDir makes a directory in dir, and opens it. remove closes and removes it.
func privateDir(dir *os.File) (_ *os.File, remove func(), err error) {
	parent, name := int(dir.Fd()), ".seedbed-"+rand.Text()
	if err := unix.Mkdirat(parent, name, 0o700); err != nil {
		return nil, nil, err
	}
	gone := func() { _ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR) }
	private, err := openPrivate(parent, name)
	if err != nil {
		gone()
		return nil, nil, fmt.Errorf("%s/%s: %w", dir.Name(), name, err)
	}
	return private, func() { private.Close(); gone() }, nil
}

// openPrivate opens a directory that only this process's user can enter. The owner of its parent
// could have put something else in its place, for which it returns an error.
func openPrivate(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	private := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, private.Close())
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, errors.Join(seedbed.Errorf(seedbed.ErrConflict, "another user can enter this directory, which was made a moment ago: "+
			"find out who replaced it"), private.Close())
	}
	return private, nil
}

// listenPrivate listens on a path in a directory that no other user can enter. It leaves the umask as
// it is: that belongs to the whole process, which makes files at the same time.
func listenPrivate(ctx context.Context, path string) (*net.UnixListener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	unixLn := ln.(*net.UnixListener)
	unixLn.SetUnlinkOnClose(false) // it moves
	return unixLn, nil
}

// removeStale removes a socket that its server has left behind.
func removeStale(ctx context.Context, path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return seedbed.Errorf(seedbed.ErrConflict, "%s is not a socket: remove it, or configure another path", path)
	}
	d := net.Dialer{Timeout: 2 * time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(seedbed.Errorf(seedbed.ErrInUse, "%s is served by another process: stop it first, or configure another path",
			path), conn.Close())
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("find out whether %s is served: %w", path, err)
}

// groupID returns the ID of a group, or -1 for the empty name.
func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", name, err)
	}
	return strconv.Atoi(g.Gid)
}

// ListenLoopback listens on a TCP address that only this host can reach. It returns
// seedbed.ErrInvalid for another address.
func ListenLoopback(ctx context.Context, addr string) (net.Listener, error) {
	a, err := netip.ParseAddrPort(addr)
	if err != nil || !a.Addr().IsLoopback() {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "%q is not a loopback address with a port, such as 127.0.0.1:7372", addr)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", addr)
}
