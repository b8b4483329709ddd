package httpserve

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// ConnLimiter is a listener that bounds the number of open connections. Others wait in the kernel's
// queue until one ends. Each peer may have only a share of them: connections beyond it are closed
// at once, so that a peer that holds connections open cannot keep the others out. It is below TLS.
type ConnLimiter struct {
	net.Listener
	room   chan struct{}
	open   atomic.Int64
	closed chan struct{}
	once   sync.Once
	// share is the most connections of one peer. This host and trusted proxies are exempt, because
	// they connect on behalf of many.
	share   int
	trusted []netip.Prefix
	mu      sync.Mutex
	peers   map[netip.Prefix]int
}

// NewConnLimiter returns a ConnLimiter of that many connections on ln. share is the most of one peer,
// which this host and the trusted networks are exempt from.
func NewConnLimiter(ln net.Listener, most, share int, trusted []netip.Prefix) *ConnLimiter {
	return &ConnLimiter{Listener: ln, room: make(chan struct{}, most), closed: make(chan struct{}), share: share,
		trusted: trusted, peers: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (c *ConnLimiter) Accept() (net.Conn, error) {
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
		return &limitedConn{Conn: conn, limiter: c, peer: peer}, nil
	}
}

// PeerOf returns the prefix that a peer's share is counted under: an IPv4 address, or the /64 of an
// IPv6 host. This host and the trusted networks have no share, and the zero prefix.
func PeerOf(a netip.Addr, trusted []netip.Prefix) netip.Prefix {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() || slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return netip.Prefix{}
	}
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // of a valid address
	return p
}

// peer returns the prefix that a connection is counted under.
func (c *ConnLimiter) peer(conn net.Conn) netip.Prefix {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}
	}
	return PeerOf(at.Addr(), c.trusted)
}

// enter counts a connection of the peer. It returns false if the peer already has its share.
func (c *ConnLimiter) enter(peer netip.Prefix) bool {
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

func (c *ConnLimiter) leave(peer netip.Prefix) {
	if !peer.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[peer]--; c.peers[peer] == 0 {
		delete(c.peers, peer)
	}
}

// metadata are the addresses that guests get their metadata from.
var metadata = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254")}

// atMetadata reports whether a connection was made to a metadata address. A listener on all
// addresses gets those too, but guests must find only their metadata there.
func atMetadata(conn net.Conn) bool {
	at, err := netip.ParseAddrPort(conn.LocalAddr().String())
	return err == nil && slices.Contains(metadata, at.Addr().Unmap().WithZone(""))
}

// Close implements net.Listener.
func (c *ConnLimiter) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

// Dense reports whether connections must be closed after their request, because others may be
// waiting to be accepted.
func (c *ConnLimiter) Dense() bool { return c.open.Load() > int64(cap(c.room))/2 }

// limitedConn is a connection that its limiter counts until it is closed.
type limitedConn struct {
	net.Conn
	limiter *ConnLimiter
	peer    netip.Prefix
	once    sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.once.Do(func() {
		c.limiter.open.Add(-1)
		c.limiter.leave(c.peer)
		<-c.limiter.room
	})
	return c.Conn.Close()
}
