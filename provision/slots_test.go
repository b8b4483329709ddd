package provision

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// TestWaitingTakesNoSeat checks that jobs that wait for the guest plane, or the guest, let others
// continue, and that the working jobs never exceed the limit.
func TestWaitingTakesNoSeat(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Workers = 1 }
	var inside, most atomic.Int32
	count := func(_ context.Context, name string, at drivertest.Point) error {
		switch {
		case name != "CloneVolume" && name != "DefineDomain" && name != "StartDomain":
		case at == drivertest.After:
			inside.Add(-1)
		default:
			n := inside.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-time.After(5 * time.Millisecond) // long enough for another job to run at the same time
		}
		return nil
	}
	l.hv.Fail(count)
	l.pool.Fail(count)
	l.deaf.Store(true)
	l.mute.Store(true)
	jobs := []seedbed.JobID{l.create("web1"), l.create("web2"), l.create("web3"), l.create("web4")}
	at := func(stage string) func() bool {
		return func() bool {
			for _, id := range jobs {
				if j, err := l.db.Job(t.Context(), id); err != nil || j.Stage != stage {
					return false
				}
			}
			return true
		}
	}
	p := l.start()
	l.eventually("all wait for the guest plane", at("publish"))
	l.deaf.Store(false)
	l.eventually("all wait for their guest", at("ready"))
	l.mute.Store(false)
	for _, id := range jobs {
		l.wait(id, seedbed.JobSucceeded)
	}
	p.stop()
	l.invariants(jobs...)
	if n := most.Load(); n != 1 {
		t.Errorf("%d effects at the same time; want 1", n)
	}
}

// TestWaitingCounts checks that a job that waits without a slot still counts for its node.
func TestWaitingCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Workers, c.PerNode = 1, 2 }
	l.deaf.Store(true)
	jobs := []seedbed.JobID{l.create("web1"), l.create("web2"), l.create("web3")}
	var claims atomic.Int32
	p := l.start(func(p *process) {
		p.store.fail(func(write, _ string, _ drivertest.Point) error {
			if write == "claim" {
				claims.Add(1)
			}
			return nil
		})
	})
	stages := func() (at []string) {
		for _, id := range jobs {
			j, err := l.db.Job(t.Context(), id)
			l.ok(err)
			at = append(at, j.Stage)
		}
		return at
	}
	waiting := func() (n int) {
		for _, s := range stages() {
			if s == "publish" {
				n++
			}
		}
		return n
	}
	l.eventually("two wait for the guest plane", func() bool { return waiting() == 2 })
	// The engine tries to claim a job every few milliseconds during that time.
	asked := claims.Load()
	l.eventually("the engine to ask for more", func() bool { return claims.Load() > asked+20 })
	if n := waiting(); n != 2 {
		t.Errorf("stages are %v; want two that were begun", stages())
	}
	l.deaf.Store(false)
	for _, id := range jobs {
		l.wait(id, seedbed.JobSucceeded)
	}
	p.stop()
}
