package metadata

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
)

// NeighbourFunc returns the MAC that the kernel's neighbour table has for addr on the interface
// with index ifindex.
type NeighbourFunc func(ctx context.Context, ifindex int, addr netip.Addr) (seedbed.MAC, error)

// bound is the interface that a listener is bound to, and so is every connection that it accepts.
type bound struct {
	bridge  string
	ifindex int
}

// boundTo asks the kernel what a listener is bound to (socket(7)).
func boundTo(ln net.Listener) (b bound, err error) {
	err = onSocket(ln, func(fd int) error {
		var err error
		if b.ifindex, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX); err != nil {
			return fmt.Errorf("getsockopt SO_BINDTOIFINDEX: %w", err)
		}
		if b.bridge, err = unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil {
			return fmt.Errorf("getsockopt SO_BINDTODEVICE: %w", err)
		}
		return nil
	})
	if err == nil && b.ifindex == 0 {
		err = fmt.Errorf("the listener on %s is not bound to a bridge", ln.Addr())
	}
	return b, err
}

// recheck is how long the neighbour entry of a marked connection is valid for the next connections
// of the NIC. cloud-init makes about twenty at once.
const recheck = time.Second

// timedFacts is the kernel's last answer about the caller at a NIC, with its time.
type timedFacts struct {
	facts Facts
	at    time.Duration // since the server began
}

// kernelFacts asks the kernel about an accepted connection: its mark from the socket, its peer's
// MAC from the neighbour table.
func (s *Server) kernelFacts(ctx context.Context, c *conn) (Facts, error) {
	if c.ln.unbound != nil {
		return Facts{}, c.ln.unbound
	}
	peer, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return Facts{}, fmt.Errorf("the peer %s has no address", c.RemoteAddr())
	}
	f := Facts{Bridge: c.ln.bound.bridge, Peer: peer.AddrPort().Addr().Unmap().WithZone("")}
	err := onSocket(c.Conn, func(fd int) error {
		mark, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK)
		if err != nil {
			return fmt.Errorf("getsockopt SO_MARK: %w", err)
		}
		f.Mark = uint32(mark)
		return nil
	})
	if err != nil {
		return Facts{}, err
	}
	var known *session
	if p, ok := s.dir.current.Load().port(f.Mark); ok && f.Mark != 0 {
		known = s.dir.sessions.find(p.instance)
		if m := known.lastFacts.Load(); m != nil && time.Since(s.began)-m.at < recheck {
			f.MAC = m.facts.MAC
			if f == m.facts {
				return f, nil
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if f.MAC, err = s.cfg.Neighbour(ctx, c.ln.bound.ifindex, f.Peer); err != nil {
		return Facts{}, fmt.Errorf("neighbour %s on %s: %w", f.Peer, f.Bridge, err)
	}
	if known != nil {
		known.lastFacts.Store(&timedFacts{f, time.Since(s.began)})
	}
	return f, nil
}

// onSocket runs f with the descriptor of a connection or listener.
func onSocket(c any, f func(fd int) error) error {
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

// hopOption returns the socket option for the time to live of packets from c (ip(7), ipv6(7)).
func hopOption(c net.Conn) (level, name int) {
	if a, ok := c.LocalAddr().(*net.TCPAddr); ok && a.IP.To4() == nil {
		return unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	return unix.IPPROTO_IP, unix.IP_TTL
}

// setHops sets how many links the packets of c may pass.
func setHops(c net.Conn, n int) error {
	level, name := hopOption(c)
	return onSocket(c, func(fd int) error { return unix.SetsockoptInt(fd, level, name, n) })
}
