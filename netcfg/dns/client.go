package dns

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

const (
	// queryRate is how many queries one client may send each second, and as many at once. It is the bound of Amazon's
	// resolver.
	queryRate = 1024
	// forwardRate is how many of these each second are asked of other resolvers, and forwardBurst how many at once. The node's
	// connection table has each query for 30 seconds, and one by TCP for 120: that is less than what a NIC may have there.
	// tcpCost is what the latter counts.
	forwardRate, forwardBurst, tcpCost = 100, 200, 5
	// maxWaiting is how many queries of one client may wait for another resolver, and maxConns how many connections it may
	// have.
	maxWaiting = 32
	maxConns   = 16
	// maxClients bounds the memory. Beyond it, all of them are forgotten, which only resets their bounds.
	maxClients = 1 << 16
)

// who tells clients apart: the NIC by its mark, whatever number of addresses it has, or the address of what has no mark. The filters
// mark all that a guest asks. Linux before 5.19 does not tell the marks of queries by UDP, nor a process without CAP_NET_RAW.
type who struct {
	mark uint32
	addr netip.Addr
}

func whose(mark uint32, addr netip.Addr) who {
	if mark != 0 {
		return who{mark: mark}
	}
	return who{addr: addr}
}

// clients are what a server remembers of those that ask.
type clients struct {
	mu sync.Mutex
	of map[who]*client
}

type client struct {
	rate, forwards *rate.Limiter
	waiting, conns atomic.Int32
}

func (c *clients) get(a who) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, ok := c.of[a]
	if !ok {
		if len(c.of) >= maxClients {
			clear(c.of)
		}
		of = &client{rate: rate.NewLimiter(queryRate, queryRate), forwards: rate.NewLimiter(forwardRate, forwardBurst)}
		c.of[a] = of
	}
	return of
}

func (c *client) allow(now time.Time) bool { return c.rate.AllowN(now, 1) }

// begin reports whether one more query may be asked of other resolvers; if so, end must follow it.
func (c *client) begin(tcp bool) bool {
	cost := 1
	if tcp {
		cost = tcpCost
	}
	return c.forwards.AllowN(time.Now(), cost) && within(&c.waiting, maxWaiting)
}

func (c *client) end() { c.waiting.Add(-1) }

// within adds one unless that exceeds most.
func within(n *atomic.Int32, most int32) bool {
	if n.Add(1) > most {
		n.Add(-1)
		return false
	}
	return true
}

// boundedListener closes further connections of a client that has maxConns.
// ctx ends all connections.
type boundedListener struct {
	net.Listener
	ctx     context.Context
	clients *clients
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := c.(*net.TCPConn)
		of := l.clients.get(whose(markOf(conn), conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()))
		if within(&of.conns, maxConns) {
			b := &boundedConn{Conn: c, of: of}
			b.stop = context.AfterFunc(l.ctx, func() { b.Conn.Close() })
			return b, nil
		}
		c.Close()
	}
}

// markOf returns the mark of the packet that began a connection; 0 if it had none (tcp_fwmark_accept of ip-sysctl).
func markOf(conn *net.TCPConn) uint32 {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	mark := 0
	if err := raw.Control(func(fd uintptr) { mark, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK) }); err != nil {
		return 0
	}
	return uint32(mark)
}

// clientAddr is the address of a connection, by which its handler finds the client.
type clientAddr struct {
	net.Addr
	addr netip.Addr
	of   *client
}

type boundedConn struct {
	net.Conn
	of   *client
	stop func() bool
	once sync.Once
}

func (c *boundedConn) RemoteAddr() net.Addr {
	a := c.Conn.RemoteAddr()
	return clientAddr{a, a.(*net.TCPAddr).AddrPort().Addr().Unmap(), c.of}
}

// Write fails if the client does not take the answer.
func (c *boundedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(tcpTime)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *boundedConn) Close() error {
	c.once.Do(func() {
		c.stop()
		c.of.conns.Add(-1)
	})
	return c.Conn.Close()
}
