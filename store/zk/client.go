// Package zk coordinates the control hosts of an installation through ZooKeeper: which hosts are
// members, and which one leads.
//
// Nothing depends only on it. A leader gives up by itself after two thirds of the session timeout
// without a committed write, which is before the servers can let another one lead. What must happen
// exactly once is decided by the database. While ZooKeeper has no quorum there is no leader, and
// everything else continues.
//
// The znodes below Config.Root are:
//
//	members/ID           ephemeral, a seedbed.Member in JSON
//	leader/ROLE/ID-SEQ   ephemeral and sequential; the lowest SEQ leads
//
// ID is a random UUID. It identifies a znode whose creation was not confirmed. The leader's fencing
// token is its znode's czxid.
package zk

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"seedbed/internal/sleep"
)

// Config configures the connection to ZooKeeper.
type Config struct {
	Servers []string // each host:port
	// SessionTimeout is how long a member may be silent before the servers consider it dead. The
	// servers may grant a different timeout, which then applies.
	SessionTimeout time.Duration
	// Root is the znode below which everything is stored, such as /seedbed. It is created if
	// necessary.
	Root string
	Log  *slog.Logger
}

// Client is one member's connection to ZooKeeper. Its methods work while Run is running, and wait
// while there is no session.
type Client struct {
	cfg Config

	mu      sync.Mutex
	current *session // nil before the first session
	changed chan struct{}
	tokens  map[string]int64 // by role that this member leads
}

// New returns a client. Run connects it.
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

// Run keeps a session until ctx ends, and opens a new one whenever the session is lost. It returns
// nil once its znodes are removed, or left to the servers to remove.
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
		sleep.For(ctx, wait+rand.N(wait)) // random, so that members do not all reconnect at the same time
		wait = min(2*wait, retryMost)
	}
	return nil
}

// follow waits for the end of a session, and logs if it does not start in time.
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

// session waits for a working session. It returns ErrUnavailable if ctx ends before there is one.
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
