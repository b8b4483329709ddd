package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"seedbed"
)

var (
	errStopped    = errors.New("stopped")
	errExpired    = errors.New("the servers have ended it: nothing was heard of this host for the session timeout")
	errUnanswered = errors.New("a request was not answered within the session timeout")
)

// session is one ZooKeeper session; its znodes end with it. After an expiry the library would
// continue with a new session, but a session here ends instead.
type session struct {
	conn   *zookeeper.Conn
	log    *slog.Logger
	ready  chan struct{} // closed when the servers have granted the session
	ended  chan struct{} // closed when it is lost or no longer needed
	events chan struct{} // closed when the library has ended

	granted atomic.Int64 // the timeout that the servers granted, a time.Duration
	hangUp  context.CancelFunc

	mu    sync.Mutex
	cause error
	up    bool
	users sync.WaitGroup // callers that rely on the session
	calls sync.WaitGroup // running requests to the library
}

// open starts a session. The library connects and reconnects in the background.
func (c *Client) open() (*session, error) {
	ctx, hangUp := context.WithCancel(context.Background()) // for the connections; close ends it
	s := &session{
		log: c.cfg.Log, hangUp: hangUp,
		ready: make(chan struct{}), ended: make(chan struct{}), events: make(chan struct{}),
	}
	s.granted.Store(int64(c.cfg.SessionTimeout))
	d := dialer{ctx: ctx, timeout: s.timeout, granted: func(t time.Duration) { s.granted.Store(int64(t)) }}
	conn, events, err := zookeeper.Connect(c.cfg.Servers, c.cfg.SessionTimeout,
		zookeeper.WithHostProvider(&hosts{}), zookeeper.WithDialer(d.dial),
		zookeeper.WithEventCallback(s.event), zookeeper.WithMaxBufferSize(4<<20),
		zookeeper.WithLogger(logger{c.cfg.Log}), zookeeper.WithLogInfo(false))
	if err != nil {
		hangUp()
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	s.conn = conn
	go func() {
		defer close(s.events)
		for range events { // closed when the library ends; s.event has handled them
		}
	}()
	return s, nil
}

// event follows the state of the session. The library calls it, and it must not block.
func (s *session) event(e zookeeper.Event) {
	if e.Type != zookeeper.EventSession || s.why() != nil {
		return
	}
	switch e.State {
	case zookeeper.StateHasSession:
		s.setUp(true)
		s.log.Info("connected to zookeeper", "server", e.Server, "session_timeout", s.timeout())
	case zookeeper.StateDisconnected:
		if s.setUp(false) {
			s.log.Warn("zookeeper connection lost", "server", e.Server)
		}
	case zookeeper.StateExpired:
		s.end(errExpired)
	}
}

// setUp records whether there is a connection, and returns the previous value.
func (s *session) setUp(up bool) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.up = s.up, up
	if up && !s.connected() {
		close(s.ready)
	}
	return before
}

// connected reports whether there has ever been a connection.
func (s *session) connected() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// timeout returns the session timeout: the granted one, or the requested one before that.
func (s *session) timeout() time.Duration { return time.Duration(s.granted.Load()) }

// name formats the session's ID like ZooKeeper's own tools.
func (s *session) name() string { return "0x" + strconv.FormatInt(s.conn.SessionID(), 16) }

// end ends the session. Only the first cause is kept.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
		close(s.ended)
	}
}

// why returns what ended the session, or nil.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// hold adds one to g, unless the session has ended, and reports whether it did.
func (s *session) hold(g *sync.WaitGroup) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return false
	}
	g.Add(1)
	return true
}

// close waits for the users of an ended session, closes it at the servers, which removes its znodes
// at once, and waits for the library.
func (s *session) close() {
	s.users.Wait()
	s.conn.Close()
	s.hangUp()
	<-s.events
	s.calls.Wait()
}

// pause waits for d. It returns false if the session or ctx ends first.
func (s *session) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ended:
	case <-ctx.Done():
	}
	return false
}

// ask runs one request. The library has no deadlines, so a request that is not answered within the
// session timeout ends the session. If ctx ends first, the request may still be carried out.
func ask[T any](ctx context.Context, s *session, what string, op func(*zookeeper.Conn) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	if !s.hold(&s.calls) {
		return none, unavailable(what, s.why())
	}
	answered := make(chan answer, 1)
	go func() {
		defer s.calls.Done()
		v, err := op(s.conn)
		answered <- answer{v, err}
	}()
	limit := time.NewTimer(s.timeout())
	defer limit.Stop()
	select {
	case a := <-answered:
		return a.v, translate(what, a.err)
	case <-ctx.Done():
		return none, unavailable(what, ctx.Err())
	case <-s.ended:
		return none, unavailable(what, s.why())
	case <-limit.C:
		s.end(errUnanswered)
		return none, unavailable(what, errUnanswered)
	}
}

func unavailable(what string, err error) error {
	return seedbed.Errorf(seedbed.ErrUnavailable, "zookeeper: %s: %s", what, err)
}

// translate maps the library's errors to seedbed's.
func translate(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zookeeper.ErrNoNode):
		return seedbed.Errorf(seedbed.ErrNotFound, "zookeeper: %s: %s", what, err)
	case errors.Is(err, zookeeper.ErrNodeExists):
		return seedbed.Errorf(seedbed.ErrExists, "zookeeper: %s: %s", what, err)
	case errors.Is(err, zookeeper.ErrNoAuth):
		return seedbed.Errorf(seedbed.ErrForbidden, "zookeeper: %s: %s", what, err)
	}
	return unavailable(what, err)
}

// logger receives the library's messages. The session itself logs what matters.
type logger struct{ log *slog.Logger }

// Printf implements the library's Logger.
func (l logger) Printf(format string, args ...any) {
	l.log.Debug("zookeeper library", "says", fmt.Sprintf(format, args...))
}
