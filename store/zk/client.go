// Package zk coordinates the control hosts of an installation through
// ZooKeeper: which of them are there, and which one leads.
//
// Nothing rests on it alone. A leader gives up by itself at two thirds of the
// session timeout without a committed write, which is before the servers can
// let another one lead; and what must happen once is decided by the database.
// While ZooKeeper has no quorum nobody leads, and everything else goes on.
//
// The znodes below Config.Root are:
//
//	members/ID           ephemeral, a seedbed.Member in JSON
//	leader/ROLE/ID-SEQ   ephemeral and sequential; the lowest SEQ leads
//
// ID is a random UUID, by which a node is found again whose making was not
// answered. The leader's fencing token is its node's czxid.
package zk

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Config is how ZooKeeper is reached.
type Config struct {
	Servers []string // each host:port
	// SessionTimeout is after how long without a sign of life the servers take
	// a member for dead. The servers may grant another one, which then counts.
	SessionTimeout time.Duration
	// Root is the znode below which everything is kept, such as /seedbed; it is made.
	Root string
	Log  *slog.Logger
}

// Client is one member's connection to ZooKeeper. Its methods work while Run
// does, and wait while there is no session.
type Client struct {
	cfg Config

	mu      sync.Mutex
	current *session // nil before the first
	changed chan struct{}
	tokens  map[string]int64 // by the role that is led
}

// New makes a client; Run connects it.
func New(cfg Config) *Client {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{cfg: cfg, changed: make(chan struct{}), tokens: map[string]int64{}}
}

const (
	retryLeast = 100 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Run keeps a session until ctx ends, and a new one whenever the last was
// lost; it returns nil then, after every node of its own is gone or left to
// the servers to remove.
func (c *Client) Run(ctx context.Context) error {
	wait := retryLeast
	for ctx.Err() == nil {
		s, err := c.open()
		if err != nil {
			return err
		}
		c.publish(s)
		c.follow(ctx, s)
		if s.connected() {
			wait = retryLeast
		}
		if ctx.Err() == nil {
			c.cfg.Log.Warn("zookeeper session lost", "session", s.name(), "err", s.why())
		}
		s.close()
		pause(ctx, wait+rand.N(wait)) // the members do not come back all at once
		wait = min(2*wait, retryMost)
	}
	return nil
}

// follow waits for the end of a session, and says when it does not begin.
func (c *Client) follow(ctx context.Context, s *session) {
	late := time.NewTimer(c.cfg.SessionTimeout)
	defer late.Stop()
	for {
		select {
		case <-late.C:
			if !s.connected() {
				c.cfg.Log.Warn("no zookeeper server answers", "servers", c.servers())
			}
		case <-s.ended:
			return
		case <-ctx.Done():
			s.end(errStopped)
			return
		}
	}
}

func (c *Client) publish(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// session waits for a session that works. The error is ErrUnavailable, when
// ctx ended before there was one.
func (c *Client) session(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		s, changed := c.current, c.changed
		c.mu.Unlock()
		var ready, ended <-chan struct{}
		if s != nil {
			ready, ended = s.ready, s.ended
		}
		select {
		case <-ended:
			ready = nil
		default:
		}
		select {
		case <-ready:
			return s, nil
		case <-changed:
		case <-ctx.Done():
			return nil, unavailable("wait for a session", ctx.Err())
		}
	}
}

// pause waits for d, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
