package libvirt

import (
	"sync"
	"time"

	"seedbed/internal/cgate"
)

const (
	// idleTime is how long an idle connection is kept. libvirtd probes a connection that was silent
	// for five seconds (keepalive_interval), and should not have to.
	idleTime = 3 * time.Second
	// maxIdle is how many idle connections are kept.
	maxIdle = 8
)

// connPool is a pool of connections. Each call has one to itself. A connection is only put back if all
// its calls succeeded.
type connPool[C any] struct {
	// open opens a connection.
	open func() (C, error)
	// alive reports whether the far side answers on the connection.
	alive func(C) bool
	// closeConn closes a connection.
	closeConn func(C)

	mu     sync.Mutex
	idle   []idleConn[C] // the most recently used is last
	closed bool
}

// idleConn is an idle connection, and since when it is idle.
type idleConn[C any] struct {
	conn  C
	since time.Time
}

// get returns a connection for the caller's own use. If an idle one no longer answers, it is
// closed with all other idle ones, because the far side was most likely restarted. Nothing was
// asked of it yet, so the caller gets another one.
func (p *connPool[C]) get() (C, error) {
	p.mu.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mu.Unlock()
		return p.open()
	}
	conn := p.idle[n-1].conn
	p.idle = p.idle[:n-1]
	p.mu.Unlock()
	if p.alive(conn) {
		return conn, nil
	}
	p.closeConn(conn)
	p.clear()
	return p.open()
}

// put returns a connection on which all calls succeeded.
func (p *connPool[C]) put(conn C) {
	p.mu.Lock()
	kept := !p.closed && len(p.idle) < maxIdle
	if kept {
		p.idle = append(p.idle, idleConn[C]{conn, time.Now()})
	}
	p.mu.Unlock()
	if !kept {
		p.closeConn(conn)
	}
}

// sweep closes the connections that were idle for restTime.
func (p *connPool[C]) sweep() { p.closeIdle(time.Now().Add(-idleTime)) }

// clear closes all idle connections.
func (p *connPool[C]) clear() { p.closeIdle(time.Now()) }

// close is like clear, and later connections are closed when they are returned.
func (p *connPool[C]) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.clear()
}

// closeIdle closes the connections that were not used since then.
func (p *connPool[C]) closeIdle(then time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && !p.idle[n].since.After(then) {
		n++
	}
	old := p.idle[:n:n]
	p.idle = p.idle[n:]
	p.mu.Unlock()
	for _, r := range old {
		p.closeConn(r.conn)
	}
}

// newGate returns the gate in front of libvirt's client. Its limit of concurrent calls is below
// libvirtd's limit of connections that are not authenticated yet (max_anonymous_clients, 20).
func newGate() *cgate.Gate {
	return cgate.New(cgate.Config{
		Library: "libvirt", Owner: "the libvirt driver", Subject: "domain",
		Hint:  "look at its log, or restart it (systemctl restart libvirtd)",
		Limit: 2 * time.Minute,
	})
}
