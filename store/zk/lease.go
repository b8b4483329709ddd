package zk

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	errSilent  = errors.New("no write was committed for two thirds of the session timeout")
	errRemoved = errors.New("its node was removed")
)

// lease is how long this process may take itself for the leader: until two
// thirds of the session timeout after the last moment before a write that was
// committed. It is kept by the monotonic clock alone; nobody has to tell that
// it is over, and once over it stays so.
type lease struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu   sync.Mutex
	end  time.Time
	over bool
}

// newLease gives a lease until end, and the context that ends with it.
func newLease(ctx context.Context, end time.Time) (context.Context, *lease) {
	inner, cancel := context.WithCancelCause(ctx)
	l := &lease{cancel: cancel, end: end}
	l.timer = time.AfterFunc(time.Until(end), func() { l.holds() })
	return leaseContext{inner, l}, l
}

// extend moves the end, unless the lease is over; it tells whether it is not.
func (l *lease) extend(end time.Time) bool {
	if !l.holds() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if end.After(l.end) {
		l.end = end
		l.timer.Reset(time.Until(end))
	}
	return true
}

// until is the end.
func (l *lease) until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// holds tells whether the lease is not over, by the clock.
func (l *lease) holds() bool {
	l.mu.Lock()
	lapsed := !l.over && !time.Now().Before(l.end)
	if lapsed {
		l.over = true
	}
	over := l.over
	l.mu.Unlock()
	if lapsed {
		l.cancel(errSilent)
	}
	return !over
}

// stop ends the lease.
func (l *lease) stop(cause error) {
	l.mu.Lock()
	l.over = true
	l.timer.Stop()
	l.mu.Unlock()
	l.cancel(cause)
}

// leaseContext asks the clock at each Err: a process that was paused may go on
// before its timers do.
type leaseContext struct {
	context.Context
	lease *lease
}

// Err implements context.Context.
func (c leaseContext) Err() error {
	c.lease.holds() // cancels the inner context when it does not
	return c.Context.Err()
}
