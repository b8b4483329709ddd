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
		s := newSeats(2)
		first, second := &seat{of: s}, &seat{of: s}
		if !s.take(t.Context()) || !s.take(t.Context()) {
			t.Fatal("no seat")
		}
		third := make(chan bool, 1)
		go func() { third <- s.take(t.Context()) }()
		synctest.Wait()
		if len(third) > 0 {
			t.Fatal("three have a seat of two")
		}
		// Who waits for a moment only keeps the seat.
		end := first.wait(time.Second)
		time.Sleep(999 * time.Millisecond)
		end()
		time.Sleep(time.Second)
		first.back(t.Context())
		if len(third) > 0 {
			t.Fatal("the seat went away within the time")
		}
		end = first.wait(time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(third) == 0 || !<-third {
			t.Fatal("the seat of one who waits was not given away")
		}
		end()
		// Who comes back comes before a new job, which is there already.
		fourth, back := make(chan bool, 1), make(chan struct{})
		go func() { fourth <- s.take(t.Context()) }()
		go func() { first.back(t.Context()); close(back) }()
		synctest.Wait()
		second.leave()
		synctest.Wait()
		if len(fourth) > 0 {
			t.Error("a new job came before one that wanted its seat back")
		}
		<-back
		first.leave()
		synctest.Wait()
		if len(fourth) == 0 || !<-fourth {
			t.Error("a seat that is free was not given to a new job")
		}
		s.leave() // the third's
		s.leave() // the fourth's
		if s.free != 2 || s.aside != 0 || len(s.back) != 0 {
			t.Errorf("at the end %d are free, %d are aside, %d want theirs back", s.free, s.aside, len(s.back))
		}
	})
}

// TestSeatBesideOthers: who wants a seat back does not wait for stages that take hours; as
// long as one sits beside the others, no new job is begun.
func TestSeatBesideOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSeats(1)
		first, long := &seat{of: s}, &seat{of: s}
		if !s.take(t.Context()) {
			t.Fatal("no seat")
		}
		end := first.wait(time.Second)
		time.Sleep(2 * time.Second)
		end()
		if !s.take(t.Context()) {
			t.Fatal("no seat for the long job")
		}
		began := time.Now()
		first.back(t.Context())
		if took := time.Since(began); took != backWithin || first.away {
			t.Errorf("back after %s, away %v", took, first.away)
		}
		third := make(chan bool, 1)
		go func() { third <- s.take(t.Context()) }()
		first.leave()
		synctest.Wait()
		if len(third) > 0 {
			t.Error("a new job was begun while the long one has the only seat")
		}
		long.leave()
		if !<-third || s.free != 0 || s.aside != 0 {
			t.Errorf("at the end %d are free, %d are aside", s.free, s.aside)
		}
	})
}

// TestSeatsAreLeft: whoever stops waiting for a seat is not given one, and is forgotten.
func TestSeatsAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSeats(1)
		ctx, cancel := context.WithCancel(t.Context())
		var jobs []*seat
		for range asideMost + 1 {
			if !s.take(t.Context()) {
				t.Fatal("no seat")
			}
			j := &seat{of: s}
			jobs = append(jobs, j)
			end := j.wait(time.Second)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			end()
		}
		if s.free != 0 || s.aside != asideMost {
			t.Errorf("%d are free and %d aside; want the last to keep its own", s.free, s.aside)
		}
		for _, j := range jobs[:asideMost] {
			go j.back(ctx)
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		for _, j := range jobs {
			j.leave()
		}
		if s.take(ctx) {
			t.Error("a seat was given to one who does not want it any more")
		}
		if s.free != 1 || s.aside != 0 || len(s.back) != 0 {
			t.Errorf("at the end %d are free, %d are aside, %d want theirs back", s.free, s.aside, len(s.back))
		}
	})
}

// TestWaitingTakesNoSeat: jobs that wait for the guest plane, or the guest, let others go
// on; those that are at work at the same time are never more than there may be.
func TestWaitingTakesNoSeat(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	l.tune = func(c *Config, _ *pace) { c.Workers = 1 }
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
			<-time.After(5 * time.Millisecond) // long enough to be met
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

// TestWaitingCounts: a job that waits without a seat counts for its node as before.
func TestWaitingCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.tune = func(c *Config, _ *pace) { c.Workers, c.PerNode = 1, 2 }
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
	// The engine asks for a job every few milliseconds meanwhile.
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
