package provision

import (
	"context"
	"sync"
	"time"
)

// seat is a job's seat. The job has it while it does something, and gives it away
// while it waits for longer than a moment for somebody else: the guest plane, or the guest.
type seat struct {
	of *seats

	mu      sync.Mutex
	waiting bool
	away    bool
}

// wait begins to wait: the seat goes to another when that takes longer than patience.
// What comes after the end of it may need no seat; who begins something comes back first.
func (s *seat) wait(patience time.Duration) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting && !s.away {
			s.away = s.of.stepAside()
		}
	})
	return func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = false
	}
}

// back takes a seat again if the job has given its own away. When ctx ends first it has none.
func (s *seat) back(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		s.away = !s.of.comeBack(ctx)
	}
}

// aside begins a wait for the guest plane or the guest, which the stage ends with.
func (t *task) aside() (end func()) { return t.seat.wait(t.engine.pace.aside) }

// leave ends the job's part.
func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		s.of.goneAside()
	} else {
		s.of.leave()
	}
}
