package engine

import (
	"context"
	"sync"
	"time"
)

// slot is one job's slot. The job holds it while it does something, and yields it while it waits
// for longer than a moment for the guest plane or the guest.
type slot struct {
	of      *slots
	project string

	mu      sync.Mutex
	waiting bool
	away    bool
}

// newSlot returns the slot of a job of a project, which the job has.
func newSlot(of *slots, project string) *slot {
	of.hold(project, 1)
	return &slot{of: of, project: project}
}

// wait begins a wait; the slot is yielded after patience. What follows the wait may need no slot; a
// job that begins something reacquires it first.
func (s *slot) wait(patience time.Duration) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting && !s.away {
			s.leave()
		}
	})
	return func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = false
	}
}

// leave yields the slot.
func (s *slot) leave() {
	if s.away = s.of.yield(); s.away {
		s.of.hold(s.project, -1)
	}
}

// reacquire gets a slot again if the job has yielded its own. If ctx ends first, the job has none.
func (s *slot) reacquire(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		if s.away = !s.of.reacquire(ctx); !s.away {
			s.of.hold(s.project, 1)
		}
	}
}

// Yield begins a wait for the guest plane or the guest. end must be called when the stage ends.
func (t *Task) Yield() (end func()) { return t.slot.wait(t.engine.intervals.Yield) }

// release gives the slot back when the job ends.
func (s *slot) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		s.of.leaveYielded()
	} else {
		s.of.hold(s.project, -1)
		s.of.release()
	}
}
