package metadata

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"seedbed"
)

// NeighbourFunc finds the MAC that the kernel's neighbour table has for addr
// on the interface numbered ifindex.
type NeighbourFunc func(ctx context.Context, ifindex int, addr netip.Addr) (seedbed.MAC, error)

// kernelFacts asks the kernel about an accepted connection: its mark and the
// device that it is bound to from the socket (socket(7)), its peer's MAC from
// the neighbour table.
func kernelFacts(ctx context.Context, c net.Conn, neighbour NeighbourFunc) (Facts, error) {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return Facts{}, fmt.Errorf("peer address: %w", err)
	}
	f := Facts{Peer: peer.Addr().Unmap().WithZone("")}
	var mark, ifindex int
	err = onSocket(c, func(fd int) error {
		var err error
		if mark, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK); err != nil {
			return fmt.Errorf("getsockopt SO_MARK: %w", err)
		}
		if ifindex, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX); err != nil {
			return fmt.Errorf("getsockopt SO_BINDTOIFINDEX: %w", err)
		}
		if f.Bridge, err = unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil {
			return fmt.Errorf("getsockopt SO_BINDTODEVICE: %w", err)
		}
		return nil
	})
	if err != nil {
		return Facts{}, err
	}
	f.Mark = uint32(mark)
	if ifindex == 0 {
		return Facts{}, fmt.Errorf("the listener on %s is not bound to a bridge", c.LocalAddr())
	}
	if f.MAC, err = neighbour(ctx, ifindex, f.Peer); err != nil {
		return Facts{}, fmt.Errorf("neighbour %s on %s: %w", f.Peer, f.Bridge, err)
	}
	return f, nil
}

// onSocket runs f with the descriptor of a connection.
func onSocket(c net.Conn, f func(fd int) error) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T has no socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// hopOption is the socket option that holds the time to live of what c sends (ip(7), ipv6(7)).
func hopOption(c net.Conn) (level, name int) {
	if a, err := netip.ParseAddrPort(c.LocalAddr().String()); err == nil && a.Addr().Is6() && !a.Addr().Is4In6() {
		return unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	return unix.IPPROTO_IP, unix.IP_TTL
}

// hops reads how far the packets of c may go.
func hops(c net.Conn) (n int, err error) {
	level, name := hopOption(c)
	err = onSocket(c, func(fd int) error {
		n, err = unix.GetsockoptInt(fd, level, name)
		return err
	})
	return n, err
}

// setHops says how far the packets of c may go.
func setHops(c net.Conn, n int) error {
	level, name := hopOption(c)
	return onSocket(c, func(fd int) error { return unix.SetsockoptInt(fd, level, name, n) })
}
