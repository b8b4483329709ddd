// Package ifbind opens sockets that are bound to one interface.
package ifbind

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
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

// ReceiveMarks makes the control messages of what a UDP socket receives tell the marks of packets, see MarkOf. It needs CAP_NET_RAW
// or CAP_NET_ADMIN, and Linux 5.19: before, it returns unix.ENOPROTOOPT.
func ReceiveMarks(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVMARK, 1)
}

// MarkOf returns the mark of a packet from its control messages; 0 if it has none.
func MarkOf(control []byte) uint32 {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range all {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_MARK && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data)
		}
	}
	return 0
}

// Loop is a server's reading of a socket that is bound to an interface.
type Loop struct {
	// What it does begins its errors, such as "serve DHCP".
	What  string
	Iface *net.Interface
	Conn  interface {
		syscall.Conn
		SetReadDeadline(time.Time) error
	}
}

// checkInterval is the interval at which is checked whether the interface is still the one that the socket is bound to.
const checkInterval = 10 * time.Second

// Run calls receive, which reads from the socket once, until ctx ends, and then returns nil. It returns the first error of receive,
// unless that is of the deadline by which Run interrupts it, and ErrUnavailable once the interface was removed or replaced:
// the socket would stay bound to the old one and never receive anything.
func (l Loop) Run(ctx context.Context, receive func() error) error {
	stop := context.AfterFunc(ctx, func() { l.Conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for next := time.Now(); ; {
		if now := time.Now(); !now.Before(next) {
			if i, err := l.index(); err != nil || i != l.Iface.Index {
				return seedbed.Errorf(seedbed.ErrUnavailable, "%s on %s: the interface was removed or replaced", l.What, l.Iface.Name)
			}
			next = now.Add(checkInterval)
			l.Conn.SetReadDeadline(next)
		}
		if ctx.Err() != nil { // also if the deadline that ends the loop was just overwritten
			return nil
		}
		err := receive()
		switch {
		case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		case ctx.Err() != nil:
			return nil
		default:
			return err
		}
	}
}

// index returns the index of the interface of that name. The functions of package net list all interfaces for that, of which a
// node may have thousands.
func (l Loop) index() (int, error) {
	request, err := unix.NewIfreq(l.Iface.Name)
	if err != nil {
		return 0, err
	}
	raw, err := l.Conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.IoctlIfreq(int(fd), unix.SIOCGIFINDEX, request) })
	return int(request.Uint32()), errors.Join(err, inner)
}
