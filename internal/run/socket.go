package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
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
}

// umask guards the process's umask, so that two sockets are not created at once.
var umask sync.Mutex

// Listen serves the socket. It creates a missing directory. It replaces an existing socket only if
// no program answers on it; otherwise it returns seedbed.ErrInUse. No other user can connect before
// group and mode are set.
func (s Socket) Listen(ctx context.Context) (net.Listener, error) {
	gid, err := groupID(s.Group)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, s.Path); err != nil {
		return nil, err
	}
	ln, err := listenPrivate(ctx, s.Path)
	if err != nil {
		return nil, err
	}
	if gid >= 0 {
		err = os.Chown(s.Path, -1, gid)
	}
	if err == nil {
		err = os.Chmod(s.Path, s.Mode)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

func listenPrivate(ctx context.Context, path string) (net.Listener, error) {
	umask.Lock()
	defer umask.Unlock()
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	var lc net.ListenConfig
	return lc.Listen(ctx, "unix", path)
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
