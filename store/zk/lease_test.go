package zk

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l := newLease(t.Context(), time.Now().Add(time.Second))
		time.Sleep(900 * time.Millisecond)
		if !l.extend(time.Now().Add(time.Second)) || ctx.Err() != nil {
			t.Fatal("a lease that holds cannot be extended")
		}
		if l.extend(time.Now()); time.Until(l.until()) != time.Second {
			t.Errorf("a late confirmation of an older write shortened the lease to %s", time.Until(l.until()))
		}
		time.Sleep(999 * time.Millisecond)
		if ctx.Err() != nil {
			t.Error("the lease ended early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		select {
		case <-ctx.Done():
		default:
			t.Error("the lease did not end by itself")
		}
		if l.extend(time.Now().Add(time.Second)) || ctx.Err() == nil || !errors.Is(context.Cause(ctx), errSilent) {
			t.Errorf("a lease that was over came back (cause %v)", context.Cause(ctx))
		}
	})
}

// A process that was paused must not consider itself the leader because its timers are late. Its
// context checks the clock.
func TestLeaseWithoutTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l := newLease(t.Context(), time.Now().Add(time.Second))
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		l.timer.Stop()
		time.Sleep(time.Second)
		if ctx.Err() == nil || child.Err() == nil {
			t.Error("the context does not ask the clock")
		}
	})
}

func TestLeaseStop(t *testing.T) {
	t.Parallel()
	ctx, l := newLease(t.Context(), time.Now().Add(time.Hour))
	l.stop(errRemoved)
	if l.holds() || !errors.Is(context.Cause(ctx), errRemoved) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}
