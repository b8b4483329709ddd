// Package cgate lets calls into C libraries, which know no context: each call
// still has a deadline, and what never returns is counted and bounded.
package cgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seedbed"
)

const (
	// MaxStuck is how many calls may be inside the C library beyond their end
	// before no other is let in.
	MaxStuck = 8
	// MaxCalls is how many calls are inside at once.
	MaxCalls = 16
)

// Config says what the library is, in the words of the messages.
type Config struct {
	// Library is the far side, such as "libvirt".
	Library string
	// Owner is what is closed with the gate, such as "the libvirt driver".
	Owner string
	// Subject is what a key names, such as "domain".
	Subject string
	// Hint is what to do when too many calls are stuck.
	Hint string
	// Limit ends a call whose caller set no earlier deadline.
	Limit time.Duration
}

// Gate lets calls into one C library: each runs in a
// goroutine of its own that its caller leaves when the context ends. Such a
// call is stuck until it returns after all. The zero Gate is not usable.
type Gate struct {
	cfg   Config
	wg    sync.WaitGroup
	slots chan struct{} // one for each call inside

	mu     sync.Mutex
	stuck  int
	closed bool
	locks  map[string]chan struct{}
}

// New makes a gate that is open.
func New(c Config) *Gate {
	return &Gate{cfg: c, slots: make(chan struct{}, MaxCalls), locks: map[string]chan struct{}{}}
}

// Through runs fn behind the gate and returns what it returns, or an error
// when ctx ends first: one that is both seedbed.ErrUnavailable and
// context.DeadlineExceeded, or context.Canceled. With a key, fn starts only when
// the call before it with that key has really returned, stuck or not, so that
// calls for one subject never pass each other.
func Through[T any](ctx context.Context, g *Gate, what, key string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, GaveUp(g.cfg.Library, what, err)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Limit)
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
		return none, GaveUp(g.cfg.Library, what, ctx.Err())
	}
}

// enter waits for the key and takes it.
func (g *Gate) enter(ctx context.Context, what, key string) error {
	for {
		g.mu.Lock()
		switch {
		case g.closed:
			g.mu.Unlock()
			return seedbed.Errorf(seedbed.ErrUnavailable, "%s: %s is closed", what, g.cfg.Owner)
		case g.stuck >= MaxStuck:
			g.mu.Unlock()
			return seedbed.Errorf(seedbed.ErrUnavailable,
				"%s: %d earlier calls have not come back from %s: %s", what, MaxStuck, g.cfg.Library, g.cfg.Hint)
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
			return GaveUp(g.cfg.Library, what+", behind an earlier call for the same "+g.cfg.Subject, ctx.Err())
		}
	}
}

// leave is the end of a call, in time or not.
func (g *Gate) leave(key string, left chan struct{}) {
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
func (g *Gate) mark(left chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-left:
	default:
		close(left)
		g.stuck++
	}
}

// Stuck is how many calls are beyond their end.
func (g *Gate) Stuck() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck
}

// Close refuses new calls and waits for those under way.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	return Await(ctx, "calls into "+g.cfg.Library, g.wg.Wait)
}

// Await runs wait, which knows no context, until ctx ends.
func Await(ctx context.Context, what string, wait func()) error {
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

// GaveUp is the error of a call into library that what names and whose context
// ended with err: for a deadline it is seedbed.ErrUnavailable as well.
func GaveUp(library, what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", seedbed.Errorf(seedbed.ErrUnavailable, "%s: %s did not answer in time", what, library), err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
