package webhook

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// crowd is a listener that has at most so many connections open at a time. The
// others wait in the kernel's queue until one ends.
type crowd struct {
	net.Listener
	room   chan struct{}
	open   atomic.Int64
	closed chan struct{}
	once   sync.Once
}

func newCrowd(ln net.Listener, most int) *crowd {
	return &crowd{Listener: ln, room: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	select {
	case c.room <- struct{}{}:
	case <-c.closed:
		return nil, net.ErrClosed
	}
	conn, err := c.Listener.Accept()
	for err == nil && atMetadata(conn) {
		conn.Close()
		conn, err = c.Listener.Accept()
	}
	if err != nil {
		<-c.room
		return nil, err
	}
	c.open.Add(1)
	return &crowded{Conn: conn, crowd: c}, nil
}

// metadata are the addresses at which guests find their metadata.
var metadata = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254")}

// atMetadata tells whether a connection came in at one of them, which a listener
// on all addresses has: there guests find nothing but their metadata.
func atMetadata(conn net.Conn) bool {
	at, err := netip.ParseAddrPort(conn.LocalAddr().String())
	return err == nil && slices.Contains(metadata, at.Addr().Unmap().WithZone(""))
}

// Close implements net.Listener.
func (c *crowd) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

// dense tells whether connections should not be kept for a next request:
// others may be waiting for the room.
func (c *crowd) dense() bool { return c.open.Load() > int64(cap(c.room))/2 }

type crowded struct {
	net.Conn
	crowd *crowd
	once  sync.Once
}

// Close implements net.Conn.
func (c *crowded) Close() error {
	c.once.Do(func() {
		c.crowd.open.Add(-1)
		<-c.crowd.room
	})
	return c.Conn.Close()
}
