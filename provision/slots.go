package provision

import (
	"context"
	"slices"
	"sync"
	"time"
)

// yieldMost is how many jobs may wait without a slot for each slot. A job that waits still
// renews its lease, and looks now and then at what it waits for.
const yieldMost = 8

// reacquireWithin is how long a job waits to get a slot back. Then it runs without one
// being free: the stages of the others may take hours, and its guest may be off until then.
const reacquireWithin = 2 * time.Second

// slots limits the jobs that run at the same time. A job that is only waiting may yield
// its slot to another.
type slots struct {
	mu      sync.Mutex
	free    int // below 0 when jobs run beyond the limit
	yielded int // jobs that have yielded their slot; at most most
	most    int
	// waiting are the jobs that want their slot back, in order of arrival. There are none
	// while a slot is free.
	waiting []chan struct{}
	freed   chan struct{} // filled when one becomes free
}

func newSlots(n int) *slots {
	return &slots{free: n, most: n * yieldMost, freed: make(chan struct{}, 1)}
}

// acquire waits for a free slot for a new job. It returns false when ctx ends first. Only
// one goroutine may call it at a time.
func (s *slots) acquire(ctx context.Context) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		if s.free > 0 {
			s.free--
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		select {
		case <-s.freed:
		case <-ctx.Done():
		}
	}
	return false
}

// release gives a slot back. Jobs that want theirs back come before new ones.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vacate()
}

func (s *slots) vacate() {
	if s.free < 0 {
		s.free++
		return
	}
	if len(s.waiting) > 0 {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.yielded--
		return
	}
	s.free++
	fill(s.freed)
}

// yield gives a slot away for a while. It returns false when too many jobs have done so.
func (s *slots) yield() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.yielded >= s.most {
		return false
	}
	s.yielded++
	s.vacate()
	return true
}

// reacquire waits for a slot for a job that has yielded its own, at most reacquireWithin.
// It returns false when ctx ends first.
func (s *slots) reacquire(ctx context.Context) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.yielded--
		s.mu.Unlock()
		return true
	}
	mine := make(chan struct{})
	s.waiting = append(s.waiting, mine)
	s.mu.Unlock()
	enough := time.NewTimer(reacquireWithin)
	defer enough.Stop()
	select {
	case <-mine:
		return true
	case <-enough.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.Index(s.waiting, mine)
	if n < 0 {
		return true // it was given one at that moment
	}
	s.waiting = slices.Delete(s.waiting, n, n+1)
	if ctx.Err() != nil {
		return false
	}
	s.free--
	s.yielded--
	return true
}

// leaveYielded forgets a job that has yielded its slot and ends.
func (s *slots) leaveYielded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yielded--
}
