package dns

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// queryRate is how many queries one address may send each second, and as many at once. It is the bound of Amazon's
	// resolver.
	queryRate = 1024
	// maxWaiting is how many queries of one address may wait for another resolver, and maxConns how many connections it may
	// have.
	maxWaiting = 64
	maxConns   = 16
	// maxClients bounds the memory. Beyond it all are forgotten, which only begins their bounds anew.
	maxClients = 1 << 16
)

// clients are what a server remembers of those that ask.
type clients struct {
	mu sync.Mutex
	of map[netip.Addr]*client
}

type client struct {
	rate           *rate.Limiter
	waiting, conns atomic.Int32
}

func (c *clients) get(a netip.Addr) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, ok := c.of[a]
	if !ok {
		if len(c.of) >= maxClients {
			clear(c.of)
		}
		of = &client{rate: rate.NewLimiter(queryRate, queryRate)}
		c.of[a] = of
	}
	return of
}

func (c *client) allow(now time.Time) bool { return c.rate.AllowN(now, 1) }

// begin reports whether one more query may wait; end must follow it.
func (c *client) begin() bool { return within(&c.waiting, maxWaiting) }
func (c *client) end()        { c.waiting.Add(-1) }

// within adds one unless that exceeds most.
func within(n *atomic.Int32, most int32) bool {
	if n.Add(1) > most {
		n.Add(-1)
		return false
	}
	return true
}

// boundedListener closes further connections of an address that has maxConns.
type boundedListener struct {
	net.Listener
	clients *clients
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		of := l.clients.get(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
		if within(&of.conns, maxConns) {
			return &boundedConn{Conn: c, of: of}, nil
		}
		c.Close()
	}
}

type boundedConn struct {
	net.Conn
	of   *client
	once sync.Once
}

func (c *boundedConn) Close() error {
	c.once.Do(func() { c.of.conns.Add(-1) })
	return c.Conn.Close()
}
