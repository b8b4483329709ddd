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

// lease is how long this process may consider itself the leader: two thirds of the session timeout,
// counted from just before the last committed write was sent. It is measured only by the monotonic
// clock. It ends by itself, and once over it stays over.
type lease struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu   sync.Mutex
	end  time.Time
	over bool
}

// newLease returns a lease until end, and a context that ends with it.
func newLease(ctx context.Context, end time.Time) (context.Context, *lease) {
	inner, cancel := context.WithCancelCause(ctx)
	l := &lease{cancel: cancel, end: end}
	l.timer = time.AfterFunc(time.Until(end), func() { l.holds() })
	return leaseContext{inner, l}, l
}

// extend moves the end of the lease unless it is over, and reports whether it still holds.
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

// until returns the end of the lease.
func (l *lease) until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// holds reports whether the lease is still valid by the clock.
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

// leaseContext checks the clock at each Err, because a process that was paused may continue before
// its timers fire.
type leaseContext struct {
	context.Context
	lease *lease
}

// Err implements context.Context.
func (c leaseContext) Err() error {
	c.lease.holds() // cancels the inner context if the lease is over
	return c.Context.Err()
}
