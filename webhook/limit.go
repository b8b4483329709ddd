package webhook

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// crowd is a listener that has at most so many connections open at a time. The
// others wait in the kernel's queue until one ends. A peer has no more than a
// part of them: what it opens beyond is closed at once, so that one that holds
// connections cannot keep the others out.
type crowd struct {
	net.Listener
	room   chan struct{}
	open   atomic.Int64
	closed chan struct{}
	once   sync.Once
	// share is what one peer may have, unless it is this host or a trusted proxy,
	// which come on behalf of many.
	share   int
	trusted []netip.Prefix
	mu      sync.Mutex
	peers   map[netip.Prefix]int
}

func newCrowd(ln net.Listener, most, share int, trusted []netip.Prefix) *crowd {
	return &crowd{Listener: ln, room: make(chan struct{}, most), closed: make(chan struct{}), share: share, trusted: trusted, peers: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	select {
	case c.room <- struct{}{}:
	case <-c.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			<-c.room
			return nil, err
		}
		peer := c.peer(conn)
		if atMetadata(conn) || !c.enter(peer) {
			conn.Close()
			continue
		}
		c.open.Add(1)
		return &crowded{Conn: conn, crowd: c, peer: peer}, nil
	}
}

// peer is whom a connection counts for: an IPv4 address, or the network of 64
// bits that one IPv6 host has to itself. The zero one is not counted.
func (c *crowd) peer(conn net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	a := at.Addr().Unmap().WithZone("")
	if err != nil || a.IsLoopback() || within(c.trusted, a) {
		return netip.Prefix{}
	}
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // of a valid address
	return p
}

// enter counts a connection of the peer, unless it has its share.
func (c *crowd) enter(peer netip.Prefix) bool {
	if !peer.IsValid() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[peer] >= c.share {
		return false
	}
	c.peers[peer]++
	return true
}

func (c *crowd) leave(peer netip.Prefix) {
	if !peer.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[peer]--; c.peers[peer] == 0 {
		delete(c.peers, peer)
	}
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
	peer  netip.Prefix
	once  sync.Once
}

// Close implements net.Conn.
func (c *crowded) Close() error {
	c.once.Do(func() {
		c.crowd.open.Add(-1)
		c.crowd.leave(c.peer)
		<-c.crowd.room
	})
	return c.Conn.Close()
}
