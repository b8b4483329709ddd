package zk

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// dialer makes the library's connections: ended with ctx, never waiting longer
// than the session allows, and telling the session timeout that was granted,
// which the library keeps to itself.
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

	head  []byte // of the first answer, until the timeout is in it
	known bool
}

// answerHead is the length (4 bytes), protocol version (4) and granted timeout
// in ms (4) that the answer to a connect request begins with (zookeeper.jute, ConnectResponse).
const answerHead = 12

// Read implements net.Conn. The library reads in one goroutine.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if !l.known {
		l.head = append(l.head, b[:min(n, answerHead-len(l.head))]...)
		if len(l.head) == answerHead {
			l.known = true
			if ms := int32(binary.BigEndian.Uint32(l.head[8:])); ms > 0 { // 0: the session has expired
				l.granted(time.Duration(ms) * time.Millisecond)
			}
		}
	}
	return n, err
}

// SetReadDeadline implements net.Conn. The library would wait for the answer
// to a connect request for almost seven session timeouts.
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

// hosts hands out the servers in turn. Unlike the library's own it leaves
// names to the dialer, so that one that cannot be resolved now harms nobody.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since the last connection
}

// Init implements the library's HostProvider; servers are shuffled.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len implements the library's HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next implements the library's HostProvider: retryStart makes the library
// wait a second, once all servers were tried in vain.
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
