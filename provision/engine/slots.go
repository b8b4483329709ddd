package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// yieldMost is how many jobs per slot may wait without one. A job that waits still renews its
// lease, and polls what it waits for now and then.
const yieldMost = 8

// reacquireWithin is how long a job waits to get a slot back. After that it runs beyond the limit:
// the stages of the others may take hours, and its guest may be off until then.
const reacquireWithin = 2 * time.Second

// slots limits the jobs that run at the same time. A job that is only waiting may yield its slot to
// another.
type slots struct {
	mu      sync.Mutex
	free    int // below 0 when jobs run beyond the limit
	yielded int // jobs that have yielded their slot; at most most
	most    int
	// waiting are the jobs that want to reacquire a slot, in order of arrival. It is empty while a
	// slot is free.
	waiting []chan struct{}
	freed   chan struct{} // filled when a slot becomes free
	// held counts the slots that the jobs of each project have.
	held map[string]int
}

func newSlots(n int) *slots {
	return &slots{free: n, most: n * yieldMost, freed: make(chan struct{}, 1), held: map[string]int{}}
}

// hold adds n to the number of slots that the jobs of a project have.
func (s *slots) hold(project string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[project] += n; s.held[project] == 0 {
		delete(s.held, project)
	}
}

// holders returns how many slots the jobs of each project have.
func (s *slots) holders() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// acquire waits for a free slot for a new job. It returns false if ctx ends first. Only one
// goroutine may call it at a time.
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

// release frees a slot. Jobs that want to reacquire one come before new jobs.
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

// yield frees a slot for a while. It returns false if too many jobs have yielded theirs.
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

// reacquire waits for a slot for a job that has yielded its own, for at most reacquireWithin. It
// returns false if ctx ends first.
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
		return true // it was given a slot at that moment
	}
	s.waiting = slices.Delete(s.waiting, n, n+1)
	if ctx.Err() != nil {
		return false
	}
	s.free--
	s.yielded--
	return true
}

// leaveYielded removes a job that ends without its slot from the count of yielded ones.
func (s *slots) leaveYielded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yielded--
}
