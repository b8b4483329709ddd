package zk

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"seedbed"
	"seedbed/internal/sleep"
)

// errNotLed means that a campaign ended before do ran to its end.
var errNotLed = errors.New("not led to the end")

// Lead waits until this member leads role, and runs do, whose error it returns. role must pass
// seedbed.CheckName. do's context ends as soon as another member may lead; do must then return, and
// Lead starts over. When ctx ends, do's context ends too, and Lead returns nil after do has
// returned. A member may lead a role in only one call at a time.
func (c *Client) Lead(ctx context.Context, role string, do func(context.Context) error) error {
	if err := seedbed.CheckName("role", role); err != nil {
		return err
	}
	for ctx.Err() == nil {
		s, err := c.session(ctx)
		if err != nil {
			return nil // ctx has ended
		}
		err = c.campaign(ctx, s, role, do)
		if !errors.Is(err, errNotLed) {
			return err
		}
		sleep.For(ctx, retryLeast)
	}
	return nil
}

// campaign takes part in one election, and leads if it wins.
func (c *Client) campaign(ctx context.Context, s *session, role string, do func(context.Context) error) error {
	if !s.hold(&s.users) {
		return errNotLed
	}
	defer s.users.Done()
	cand := newCandidate(s, c.cfg.Root+"/leader/"+role)
	defer cand.withdraw(ctx)
	if err := cand.elect(ctx); err != nil {
		if ctx.Err() == nil && s.why() == nil {
			c.cfg.Log.Warn("cannot stand for election", "role", role, "err", err)
			s.pause(ctx, retryMost)
		}
		return errNotLed
	}
	return c.lead(ctx, cand, role, do)
}

func (c *Client) lead(ctx context.Context, cand *candidate, role string, do func(context.Context) error) error {
	started := time.Now()
	if err := cand.confirm(ctx); err != nil {
		return errNotLed
	}
	led, l := newLease(ctx, started.Add(cand.s.timeout()*2/3))
	c.setToken(role, cand.token)
	c.cfg.Log.Info("leading", "role", role, "token", tokenName(cand.token), "session", cand.s.name())
	var keeper sync.WaitGroup
	keeper.Go(func() { cand.keep(led, l) })
	err := do(led)
	lost := led.Err() != nil && ctx.Err() == nil
	cause := context.Cause(led)
	l.stop(errStopped)
	keeper.Wait()
	c.setToken(role, 0)
	if lost {
		c.cfg.Log.Warn("leadership lost", "role", role, "token", tokenName(cand.token), "err", cause)
		return errNotLed
	}
	c.cfg.Log.Info("leadership given up", "role", role, "token", tokenName(cand.token))
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// keep extends the lease with committed writes until the lease is over.
func (c *candidate) keep(ctx context.Context, l *lease) {
	for {
		timeout := c.s.timeout()
		if !c.s.pause(ctx, timeout/6) && ctx.Err() == nil {
			l.stop(c.s.why())
		}
		if ctx.Err() != nil {
			return
		}
		sent := time.Now()
		in, cancel := context.WithDeadline(ctx, l.until())
		err := c.confirm(in)
		cancel()
		switch {
		case err == nil:
			l.extend(sent.Add(timeout * 2 / 3))
		case errors.Is(err, seedbed.ErrNotFound):
			l.stop(errRemoved)
		}
	}
}

// confirm writes the candidate's znode. Success means that a quorum has committed the write in this
// session. (A server that is cut off from the others may still answer a read or the library's
// ping.)
func (c *candidate) confirm(ctx context.Context) error {
	_, err := ask(ctx, c.s, "confirm the leadership", func(conn *zookeeper.Conn) (*zookeeper.Stat, error) {
		return conn.Set(c.path, nil, -1)
	})
	return err
}

func (c *Client) setToken(role string, token int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens[role] = token; token == 0 {
		delete(c.tokens, role)
	}
}

// tokenName formats a zxid like ZooKeeper's own tools.
func tokenName(token int64) string { return "0x" + strconv.FormatInt(token, 16) }
