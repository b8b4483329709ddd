package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// Queue counts the jobs that no engine has claimed yet.
type Queue interface {
	// Queued returns their number, but at most most.
	Queued(ctx context.Context, most int) (int, error)
}

// countAge is how long a count of the queue is used.
const countAge = time.Second

// backlog is the number of waiting jobs: the last count plus those accepted here since. What others
// add or claim shows with the next count.
type backlog struct {
	mu      sync.Mutex
	counted time.Time
	waiting int
}

// enter takes a place in the queue and reports whether there was room. The caller must return the
// place with leave if it does not make a job. Without a bound there is always room.
func (s *Server) enter(ctx context.Context) (bool, error) {
	if s.MaxQueued == 0 {
		return true, nil
	}
	b := &s.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.counted.IsZero() || now.Sub(b.counted) >= countAge {
		// Set the time first, so that the next callers do not all query a failing store.
		b.counted = now
		n, err := s.Queue.Queued(ctx, s.MaxQueued)
		if err != nil {
			return false, err
		}
		b.waiting = n
	}
	if b.waiting >= s.MaxQueued {
		return false, nil
	}
	b.waiting++
	return true, nil
}

func (b *backlog) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = max(0, b.waiting-1)
}

// queue admits a delivery to the queue, or defers it. The caller must call leave if it does not
// make a job. A delivery that already has a job does not take a place; it is answered with that
// job.
func (s *Server) queue(ctx context.Context, d *delivered) (leave func(), err error) {
	entered, err := s.enter(ctx)
	switch {
	case err != nil:
		d.log().Error("webhook not accepted: the queue cannot be counted", "err", err)
		return nil, problemOf(seedbed.ErrUnavailable)
	case entered:
		return s.backlog.leave, nil
	}
	if first, err := s.History.EarlierReceipt(ctx, d.Delivery); first != nil || errors.Is(err, seedbed.ErrConflict) {
		return func() {}, nil
	}
	d.log().Warn("webhook throttled", "err", "the queue of jobs is full")
	return nil, httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unavailable",
		Detail: fmt.Sprintf("%d jobs wait already: try again later", s.MaxQueued)}
}
