package api

import (
	"context"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Streaming reads the events of all jobs in one order.
type Streaming interface {
	// EventsOfAll returns at most limit events after a place in that order.
	EventsOfAll(ctx context.Context, after int64, limit int) ([]seedbed.NumberedEvent, error)
	// LastPlace returns the place of the newest event.
	LastPlace(ctx context.Context) (int64, error)
}

// streamJob sends a job's events, each with its number as ID. Before the first event, and after
// each batch, it sends the current job as an event of kind "job". Last, it sends the finished job
// as an event of kind "end". A reader that reconnects after the end gets 204, which stops a browser
// from reconnecting.
func (r *router) streamJob(ctx context.Context, c *fiber.Ctx) error {
	seq, given, err := lastEvent(c)
	if err != nil {
		return err
	}
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	if given && j.State.Terminal() {
		rest, err := r.Store.Events(ctx, j.ID, seq, 1)
		if err != nil {
			return err
		}
		if len(rest) == 0 {
			return c.SendStatus(fiber.StatusNoContent)
		}
	}
	id, told := j.ID, seedbed.Job{}
	return r.stream(c, func(ctx context.Context, out *eventWriter) (following, error) {
		page, err := r.page(ctx, id, seq)
		if err != nil {
			return streamEnds, err
		}
		if told.ID == "" {
			if err := out.event("job", 0, page.Job); err != nil {
				return streamEnds, err
			}
			told = page.Job
		}
		for _, e := range page.Events {
			if err := out.event("event", e.Seq, e); err != nil {
				return streamEnds, err
			}
			seq = e.Seq
		}
		switch {
		case len(page.Events) == eventPage:
			return streamGoesOn, nil
		case page.Job.State.Terminal() && len(page.Events) == 0:
			return streamEnds, out.event("end", 0, page.Job)
		case page.Job.State.Terminal():
			return streamGoesOn, nil // the last event may have been written after the job was read
		case len(page.Events) == 0 && sameProgress(told, page.Job):
			return streamWaits, nil
		}
		told = page.Job
		return streamWaits, out.event("job", 0, page.Job)
	})
}

// sameProgress reports whether a and b show the same progress of one job.
func sameProgress(a, b seedbed.Job) bool {
	return a.ID == b.ID && a.State == b.State && a.Stage == b.Stage && a.Done == b.Done && a.Total == b.Total &&
		a.Progress == b.Progress && a.Attempts == b.Attempts && a.Cancel == b.Cancel
}

// allEvents sends the events of all jobs, each with its place as ID. It starts after the last event
// that the caller has or, without one, with the next event.
func (r *router) allEvents(ctx context.Context, c *fiber.Ctx) error {
	at, given, err := lastEvent(c)
	if err != nil {
		return err
	}
	if !given {
		if at, err = r.Store.LastPlace(ctx); err != nil {
			return err
		}
	}
	return r.stream(c, func(ctx context.Context, out *eventWriter) (following, error) {
		found, err := r.Store.EventsOfAll(ctx, at, eventPage)
		if err != nil {
			return streamEnds, err
		}
		for _, e := range found {
			if err := out.event("event", e.Place, e); err != nil {
				return streamEnds, err
			}
			at = e.Place
		}
		if len(found) == eventPage {
			return streamGoesOn, nil
		}
		return streamWaits, nil
	})
}
