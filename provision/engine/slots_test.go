package engine

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"
)

func TestSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		first, second := newSlot(s, "a"), newSlot(s, "a")
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
		if s.free != 2 || s.yielded != 0 || len(s.waiting) != 0 || len(s.held) != 0 {
			t.Errorf("at the end %d are free, %d are aside, %d want theirs back, %v are held", s.free, s.yielded, len(s.waiting), s.held)
		}
	})
}

// TestSlotsOfProjects checks that a job counts for its project only while it has its slot.
func TestSlotsOfProjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(3)
		for range 3 {
			s.acquire(t.Context())
		}
		first, second, third := newSlot(s, "a"), newSlot(s, "a"), newSlot(s, "b")
		check := func(want map[string]int) {
			t.Helper()
			synctest.Wait()
			if got := s.holders(); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		check(map[string]int{"a": 2, "b": 1})
		end := first.wait(time.Second)
		time.Sleep(time.Second)
		check(map[string]int{"a": 1, "b": 1})
		end()
		first.reacquire(t.Context())
		check(map[string]int{"a": 2, "b": 1})
		end = third.wait(time.Second)
		time.Sleep(time.Second)
		third.release()
		end()
		first.release()
		check(map[string]int{"a": 1})
		second.release()
		check(map[string]int{})
	})
}

// TestSeatBesideOthers checks that a job that reacquires a slot does not wait for stages that take
// hours, and that no new job begins while a job runs beyond the limit.
func TestSeatBesideOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		first, long := newSlot(s, "a"), newSlot(s, "a")
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
			j := newSlot(s, "a")
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
