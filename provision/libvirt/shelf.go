package libvirt

import (
	"sync"
	"time"
)

const (
	// restTime is how long a connection is kept that nobody uses. libvirtd asks one
	// that was silent for five seconds (keepalive_interval) whether it is still there,
	// and should not have to.
	restTime = 3 * time.Second
	// restMost is how many are kept.
	restMost = 8
)

// shelf keeps connections between calls, each of which has one for itself. What
// is not surely as good as new is never put there.
type shelf[C any] struct {
	// open makes a connection.
	open func() (C, error)
	// sound asks the far side, and tells whether it answers on that connection.
	sound func(C) bool
	// end closes a connection.
	end func(C)

	mu      sync.Mutex
	resting []resting[C] // the one that was used last is last
	closed  bool
}

// resting is a connection that nobody uses, and since when.
type resting[C any] struct {
	conn  C
	since time.Time
}

// take gives the caller a connection for itself. One that does not answer any more
// is closed, and so are those that rest with it: the far side was most likely
// started anew. Since nothing was asked of it yet, the caller gets another.
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

// put takes a connection back on which all calls have succeeded.
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

// sweep closes the connections that have rested for restTime.
func (s *shelf[C]) sweep() { s.drop(time.Now().Add(-restTime)) }

// clear closes all that rest.
func (s *shelf[C]) clear() { s.drop(time.Now()) }

// close is clear, after which nothing is kept any more.
func (s *shelf[C]) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.clear()
}

// drop closes those that have not been used since then.
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
