package libvirt

import (
	"sync"
	"time"
)

const (
	// restTime is how long an idle connection is kept. libvirtd probes a connection that was silent
	// for five seconds (keepalive_interval), and should not have to.
	restTime = 3 * time.Second
	// restMost is how many idle connections are kept.
	restMost = 8
)

// shelf is a pool of connections. Each call has one to itself. A connection is only put back if all
// its calls succeeded.
type shelf[C any] struct {
	// open opens a connection.
	open func() (C, error)
	// sound reports whether the far side answers on the connection.
	sound func(C) bool
	// end closes a connection.
	end func(C)

	mu      sync.Mutex
	resting []resting[C] // the most recently used is last
	closed  bool
}

// resting is an idle connection, and since when it is idle.
type resting[C any] struct {
	conn  C
	since time.Time
}

// take returns a connection for the caller's own use. If an idle one no longer answers, it is
// closed with all other idle ones, because the far side was most likely restarted. Nothing was
// asked of it yet, so the caller gets another one.
func (s *shelf[C]) take() (C, error) {
	s.mu.Lock()
	n := len(s.resting)
	if n == 0 {
		s.mu.Unlock()
		return s.open()
	}
	conn := s.resting[n-1].conn
	s.resting = s.resting[:n-1]
	s.mu.Unlock()
	if s.sound(conn) {
		return conn, nil
	}
	s.end(conn)
	s.clear()
	return s.open()
}

// put returns a connection on which all calls succeeded.
func (s *shelf[C]) put(conn C) {
	s.mu.Lock()
	kept := !s.closed && len(s.resting) < restMost
	if kept {
		s.resting = append(s.resting, resting[C]{conn, time.Now()})
	}
	s.mu.Unlock()
	if !kept {
		s.end(conn)
	}
}

// sweep closes the connections that were idle for restTime.
func (s *shelf[C]) sweep() { s.drop(time.Now().Add(-restTime)) }

// clear closes all idle connections.
func (s *shelf[C]) clear() { s.drop(time.Now()) }

// close is like clear, and later connections are closed when they are returned.
func (s *shelf[C]) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.clear()
}

// drop closes the connections that were not used since then.
func (s *shelf[C]) drop(then time.Time) {
	s.mu.Lock()
	n := 0
	for n < len(s.resting) && !s.resting[n].since.After(then) {
		n++
	}
	old := s.resting[:n:n]
	s.resting = s.resting[n:]
	s.mu.Unlock()
	for _, r := range old {
		s.end(r.conn)
	}
}
