package ceph

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seedbed"
)

const (
	// maxStuck is how many calls may be inside the C library beyond their end
	// before no other is let in.
	maxStuck = 8
	// maxCalls is how many calls are inside at once.
	maxCalls = 16
	// callLimit ends a call whose caller set no earlier deadline.
	callLimit = 30 * time.Minute
)

// gate lets calls into the C library, which knows no context: each runs in a
// goroutine of its own that its caller leaves when the context ends. Such a
// call is stuck until it returns after all. The zero gate is not usable.
type gate struct {
	wg    sync.WaitGroup
	slots chan struct{} // one for each call inside

	mu     sync.Mutex
	stuck  int
	closed bool
	locks  map[string]chan struct{}
}

func newGate() *gate {
	return &gate{slots: make(chan struct{}, maxCalls), locks: map[string]chan struct{}{}}
}

// through runs fn behind the gate and returns what it returns, or an error
// when ctx ends first: one that is both seedbed.ErrUnavailable and
// context.DeadlineExceeded, or context.Canceled. With a key, fn starts only when
// the call before it with that key has really returned, stuck or not, so that
// calls for one name never pass each other.
func through[T any](ctx context.Context, g *gate, what string, key string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, gaveUp(what, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := g.enter(ctx, what, key); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	left := make(chan struct{})
	go func() {
		defer g.leave(key, left)
		select {
		case g.slots <- struct{}{}:
			defer func() { <-g.slots }()
		case <-ctx.Done():
			return
		}
		v, err := fn(ctx)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		g.mark(left)
		return none, gaveUp(what, ctx.Err())
	}
}

// enter waits for the key and takes it.
func (g *gate) enter(ctx context.Context, what string, key string) error {
	for {
		g.mu.Lock()
		switch {
		case g.closed:
			g.mu.Unlock()
			return seedbed.Errorf(seedbed.ErrUnavailable, "%s: the pool is closed", what)
		case g.stuck >= maxStuck:
			g.mu.Unlock()
			return seedbed.Errorf(seedbed.ErrUnavailable,
				"%s: %d earlier calls have not come back from Ceph: look at the cluster's health (ceph -s), or restart seedbed-worker", what, maxStuck)
		}
		busy, taken := g.locks[key]
		if !taken || key == "" {
			if key != "" {
				g.locks[key] = make(chan struct{})
			}
			g.wg.Add(1)
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return gaveUp(what+", behind an earlier call for the same name", ctx.Err())
		}
	}
}

// leave is the end of a call, in time or not.
func (g *gate) leave(key string, left chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if key != "" {
		close(g.locks[key])
		delete(g.locks, key)
	}
	select {
	case <-left: // marked as stuck
		g.stuck--
	default:
		close(left)
	}
	g.wg.Done()
}

// mark counts a call as stuck, unless it has just left.
func (g *gate) mark(left chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-left:
	default:
		close(left)
		g.stuck++
	}
}

// stuckCalls is how many calls are beyond their end.
func (g *gate) stuckCalls() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck
}

// close refuses new calls and waits for those under way.
func (g *gate) close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	return await(ctx, "calls into Ceph", g.wg.Wait)
}

// await runs wait, which knows no context, until ctx ends.
func await(ctx context.Context, what string, wait func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to end: %w", what, ctx.Err())
	}
}

func gaveUp(what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", seedbed.Errorf(seedbed.ErrUnavailable, "%s: Ceph did not answer in time", what), err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
