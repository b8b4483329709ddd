// Package ifbind opens sockets that are bound to one interface.
package ifbind

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenConfig returns a configuration whose sockets receive only what arrives at an interface, and send only by it
// (SO_BINDTODEVICE). Sockets on other interfaces, and those of no interface where the protocol is UDP, may have the same
// address and port. An interface that was removed and made again needs a new socket. Opening one needs CAP_NET_RAW.
func ListenConfig(iface string) net.ListenConfig {
	return net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var inner error
		err := raw.Control(func(fd uintptr) {
			inner = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.BindToDevice(int(fd), iface))
		})
		return errors.Join(err, inner)
	}}
}

// Index returns the index of an interface by a socket. The functions of package net list all interfaces for that, of which a node
// may have thousands.
func Index(socket syscall.Conn, iface string) (int, error) {
	request, err := unix.NewIfreq(iface)
	if err != nil {
		return 0, err
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.IoctlIfreq(int(fd), unix.SIOCGIFINDEX, request) })
	return int(request.Uint32()), errors.Join(err, inner)
}
