package zk

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// dialer opens the library's connections. They end with ctx and never wait longer than the session
// allows. They also report the granted session timeout, which the library does not expose.
type dialer struct {
	ctx     context.Context // ends the connections
	timeout func() time.Duration
	granted func(time.Duration)
}

func (d dialer) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(d.ctx, func() { conn.Close() })
	return &link{Conn: conn, dialer: d, stop: stop}, nil
}

// link is one connection to a server.
type link struct {
	net.Conn
	dialer
	stop func() bool

	head  []byte // of the first answer, until it includes the timeout
	known bool
}

// answerHead is the size in bytes of the start of the answer to a connect request: its length (4),
// the protocol version (4) and the granted timeout in ms (4). See ConnectResponse in
// zookeeper.jute.
const answerHead = 12

// Read implements net.Conn. The library reads in only one goroutine.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if !l.known {
		l.head = append(l.head, b[:min(n, answerHead-len(l.head))]...)
		if len(l.head) == answerHead {
			l.known = true
			if ms := int32(binary.BigEndian.Uint32(l.head[8:])); ms > 0 { // 0 means that the session has expired
				l.granted(time.Duration(ms) * time.Millisecond)
			}
		}
	}
	return n, err
}

// SetReadDeadline implements net.Conn. Without it, the library would wait almost seven session
// timeouts for the answer to a connect request.
func (l *link) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(l.timeout() * 2 / 3); t.After(most) {
		t = most
	}
	return l.Conn.SetReadDeadline(t)
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.stop()
	return l.Conn.Close()
}

// hosts returns the servers in turn. Unlike the library's own provider it lets the dialer resolve
// names, so that a name that cannot be resolved now affects only its own server.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since the last connection
}

// Init implements the library's HostProvider. The library has shuffled servers.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len implements the library's HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next implements the library's HostProvider. retryStart is set after all servers failed, and makes
// the library wait for a second.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	retryStart = h.tried > 0 && h.tried%len(h.servers) == 0
	h.tried++
	return server, retryStart
}

// Connected implements the library's HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}
