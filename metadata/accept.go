package metadata

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// guestListener wraps accepted connections in conns, bounds their number, and tracks which are
// open.
type guestListener struct {
	net.Listener
	ctx     context.Context
	srv     *Server
	bound   bound // what ln is bound to, if unbound is nil
	unbound error

	mu     sync.Mutex
	open   map[*conn]struct{}
	drains bool
	empty  chan struct{} // closed once the last connection is closed while drains

	once sync.Once
	err  error
}

func newGuestListener(ctx context.Context, ln net.Listener, s *Server) *guestListener {
	return &guestListener{Listener: ln, ctx: ctx, srv: s, open: map[*conn]struct{}{}, empty: make(chan struct{})}
}

// Accept returns the next connection for which there is room. It retries after a passing error,
// such as a lack of descriptors or a caller that has left.
func (l *guestListener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			if !passing(err) {
				return nil, err
			}
			l.srv.warnf("accept", "err", err)
			select {
			case <-l.ctx.Done():
				return nil, net.ErrClosed
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		if n := l.srv.count.conns.Add(1); int(n) > l.srv.cfg.Limits.Conns {
			l.srv.count.conns.Add(-1)
			l.srv.count.refused.Add(1)
			l.srv.warnf("too many connections", "limit", l.srv.cfg.Limits.Conns)
			inner.Close()
			continue
		}
		c := &conn{Conn: inner, srv: l.srv, ln: l}
		l.mu.Lock()
		l.open[c] = struct{}{}
		l.mu.Unlock()
		return c, nil
	}
}

// passing reports whether an error of accept(2) concerns only one connection or a temporary state.
func passing(err error) bool {
	for _, e := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EINTR, syscall.ENETDOWN, syscall.EPROTO, syscall.EHOSTUNREACH, syscall.ENETUNREACH} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Close closes the listener once.
func (l *guestListener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}

func (l *guestListener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	l.srv.count.conns.Add(-1)
	if l.drains && len(l.open) == 0 {
		close(l.empty)
		l.drains = false
	}
}

// drain wakes every connection that waits for a request and gives those with a request until ctx
// ends. Then it closes the rest. It returns once all are closed.
func (l *guestListener) drain(ctx context.Context) {
	l.mu.Lock()
	if len(l.open) == 0 {
		l.mu.Unlock()
		return
	}
	l.drains = true
	for c := range l.open {
		c.Conn.SetReadDeadline(past)
	}
	l.mu.Unlock()
	select {
	case <-l.empty:
		return
	case <-ctx.Done():
	}
	l.mu.Lock()
	for c := range l.open {
		c.Conn.Close()
	}
	l.mu.Unlock()
	<-l.empty
}
