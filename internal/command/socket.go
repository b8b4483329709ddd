package command

import (
	"errors"
	"net"
	"os"
	"path/filepath"
)

// Channel returns a listening socket and the one connection to it, for two programs that inherit one
// each (Command.Sockets). Another process cannot connect: the socket has no name any more. Close the
// listener once its program has ended, so that the other one sees the end.
func Channel() (listener, conn *os.File, err error) {
	dir, err := os.MkdirTemp("", "seedbed-*") // only for this user
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	addr := &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "socket")}
	l, err := net.ListenUnix(addr.Net, addr)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	c, err := net.DialUnix(addr.Net, nil, addr)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if listener, err = l.File(); err != nil {
		return nil, nil, err
	}
	if conn, err = c.File(); err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return listener, conn, nil
}
