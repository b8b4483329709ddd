package server

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

const (
	// MaxWait is the longest time for which an answer waits for events.
	MaxWait = 30 * time.Second
	// pollInterval is how often events are read without a hint. Writes of other processes give no
	// hint.
	pollInterval = time.Second
	// EventsPerPage is the largest number of events that are read at once.
	EventsPerPage = 500
)

// Await returns the events after seq. If there are none, it waits for them, at most for hold.
func (r *Router) Await(ctx context.Context, id seedbed.JobID, seq int64, hold time.Duration) (page wire.EventPage, err error) {
	err = r.HoldBack(ctx, hold, func() (bool, error) {
		page, err = r.EventPage(ctx, id, seq)
		return len(page.Events) > 0 || page.Job.State.Terminal(), err
	})
	return page, err
}

// HoldBack calls look until it returns true, hold has passed, or the server stops. If too many
// requests wait already, it calls look only once.
func (r *Router) HoldBack(ctx context.Context, hold time.Duration, look func() (bool, error)) error {
	select {
	case r.waits <- struct{}{}:
		defer func() { <-r.waits }()
	default:
		hold = 0
	}
	end := time.NewTimer(hold)
	defer end.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		hint := r.Store.Hint() // taken before reading, so that no write in between is missed
		if done, err := look(); err != nil || done || hold == 0 {
			return err
		}
		select {
		case <-hint:
		case <-poll.C:
		case <-end.C:
			hold = 0
		case <-r.stopping:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// EventPage returns a page of the events after seq.
func (r *Router) EventPage(ctx context.Context, id seedbed.JobID, seq int64) (page wire.EventPage, err error) {
	if page.Job, err = r.Store.Job(ctx, id); err != nil {
		return page, err
	}
	page.Events, err = r.Store.Events(ctx, id, seq, EventsPerPage)
	return page, err
}
