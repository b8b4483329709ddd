package provision

import (
	"context"
	"slices"
	"sync"
	"time"
)

// asideMost is how many jobs wait without a seat for each that has one: a job that waits
// renews its lease all the same, and looks now and then at what it waits for.
const asideMost = 8

// backWithin is how long a job waits for a seat that it wants back. Then it sits down
// beside the others, whose stages may take hours: its guest may be off meanwhile.
const backWithin = 2 * time.Second

// seats are for the jobs that are at work at the same time. A job that does nothing
// but wait may give its seat to another meanwhile.
type seats struct {
	mu    sync.Mutex
	free  int // below 0 where some sit beside the others
	aside int // jobs that have given theirs away, of
	most  int
	// back are those of them that want one again, first come first. There are none
	// while a seat is free.
	back  []chan struct{}
	freed chan struct{} // filled when one becomes free
}

func newSeats(n int) *seats {
	return &seats{free: n, most: n * asideMost, freed: make(chan struct{}, 1)}
}

// take waits for a free seat, for a new job; false when ctx ends first. One asks at a time.
func (s *seats) take(ctx context.Context) bool {
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

// leave gives a seat back. Who was there before comes before a new job.
func (s *seats) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vacate()
}

func (s *seats) vacate() {
	if s.free < 0 {
		s.free++
		return
	}
	if len(s.back) > 0 {
		close(s.back[0])
		s.back = s.back[1:]
		s.aside--
		return
	}
	s.free++
	fill(s.freed)
}

// stepAside gives a seat away for a while; false when too many have done so.
func (s *seats) stepAside() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside >= s.most {
		return false
	}
	s.aside++
	s.vacate()
	return true
}

// comeBack waits for a seat for a job that has stepped aside, backWithin at most; false
// when ctx ends first.
func (s *seats) comeBack(ctx context.Context) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.aside--
		s.mu.Unlock()
		return true
	}
	mine := make(chan struct{})
	s.back = append(s.back, mine)
	s.mu.Unlock()
	enough := time.NewTimer(backWithin)
	defer enough.Stop()
	select {
	case <-mine:
		return true
	case <-enough.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.Index(s.back, mine)
	if n < 0 {
		return true // it was given one at that moment
	}
	s.back = slices.Delete(s.back, n, n+1)
	if ctx.Err() != nil {
		return false
	}
	s.free--
	s.aside--
	return true
}

// goneAside ends the part of a job that has stepped aside and does not come back.
func (s *seats) goneAside() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aside--
}
