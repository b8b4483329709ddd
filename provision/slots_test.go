package provision

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

func TestSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		first, second := &slot{of: s}, &slot{of: s}
		for range 2 {
			if !s.acquire(t.Context()) {
				t.Fatal("no slot")
			}
		}
		third := make(chan bool, 1)
		go func() { third <- s.acquire(t.Context()) }()
		synctest.Wait()
		if len(third) > 0 {
			t.Fatal("three have a slot of two")
		}
		// A short wait keeps the slot.
		end := first.wait(time.Second)
		time.Sleep(999 * time.Millisecond)
		end()
		time.Sleep(time.Second)
		first.reacquire(t.Context())
		if len(third) > 0 {
			t.Fatal("the slot went away within the time")
		}
		end = first.wait(time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(third) == 0 || !<-third {
			t.Fatal("the slot of one who waits was not given away")
		}
		end()
		// A job that reacquires a slot comes before a new job that already waits.
		fourth, back := make(chan bool, 1), make(chan struct{})
		go func() { fourth <- s.acquire(t.Context()) }()
		go func() { first.reacquire(t.Context()); close(back) }()
		synctest.Wait()
		second.release()
		synctest.Wait()
		if len(fourth) > 0 {
			t.Error("a new job came before one that wanted its slot back")
		}
		<-back
		first.release()
		synctest.Wait()
		if len(fourth) == 0 || !<-fourth {
			t.Error("a slot that is free was not given to a new job")
		}
		s.release() // the third's
		s.release() // the fourth's
		if s.free != 2 || s.yielded != 0 || len(s.waiting) != 0 {
			t.Errorf("at the end %d are free, %d are aside, %d want theirs back", s.free, s.yielded, len(s.waiting))
		}
	})
}

// TestSeatBesideOthers checks that a job that reacquires a slot does not wait for stages that take
// hours, and that no new job begins while a job runs beyond the limit.
func TestSeatBesideOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		first, long := &slot{of: s}, &slot{of: s}
		if !s.acquire(t.Context()) {
			t.Fatal("no slot")
		}
		end := first.wait(time.Second)
		time.Sleep(2 * time.Second)
		end()
		if !s.acquire(t.Context()) {
			t.Fatal("no slot for the long job")
		}
		began := time.Now()
		first.reacquire(t.Context())
		if took := time.Since(began); took != reacquireWithin || first.away {
			t.Errorf("back after %s, away %v", took, first.away)
		}
		third := make(chan bool, 1)
		go func() { third <- s.acquire(t.Context()) }()
		first.release()
		synctest.Wait()
		if len(third) > 0 {
			t.Error("a new job was begun while the long one has the only slot")
		}
		long.release()
		if !<-third || s.free != 0 || s.yielded != 0 {
			t.Errorf("at the end %d are free, %d are aside", s.free, s.yielded)
		}
	})
}

// TestSeatsAreLeft checks that a job that stops waiting for a slot is not given one, and is
// forgotten.
func TestSeatsAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		ctx, cancel := context.WithCancel(t.Context())
		var jobs []*slot
		for range yieldMost + 1 {
			if !s.acquire(t.Context()) {
				t.Fatal("no slot")
			}
			j := &slot{of: s}
			jobs = append(jobs, j)
			end := j.wait(time.Second)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			end()
		}
		if s.free != 0 || s.yielded != yieldMost {
			t.Errorf("%d are free and %d aside; want the last to keep its own", s.free, s.yielded)
		}
		for _, j := range jobs[:yieldMost] {
			go j.reacquire(ctx)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		for _, j := range jobs {
			j.release()
		}
		if s.acquire(ctx) {
			t.Error("a slot was given to one who does not want it any more")
		}
		if s.free != 1 || s.yielded != 0 || len(s.waiting) != 0 {
			t.Errorf("at the end %d are free, %d are aside, %d want theirs back", s.free, s.yielded, len(s.waiting))
		}
	})
}

// TestWaitingTakesNoSeat checks that jobs that wait for the guest plane, or the guest, let others
// continue, and that the working jobs never exceed the limit.
func TestWaitingTakesNoSeat(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	l.tune = func(c *Config, _ *intervals) { c.Workers = 1 }
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
	l.tune = func(c *Config, _ *intervals) { c.Workers, c.PerNode = 1, 2 }
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
