package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// streamJob sends a job's events, each with its number as ID. Before the first event, and after
// each batch, it sends the current job as an event of kind "job". Last, it sends the finished job
// as an event of kind "end". A reader that reconnects after the end gets 204, which stops a browser
// from reconnecting.
func (r *router) streamJob(ctx context.Context, c *fiber.Ctx) error {
	seq, given, err := server.LastEvent(c)
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
	return r.Stream(c, func(ctx context.Context, out *server.EventWriter) (server.Following, error) {
		page, err := r.EventPage(ctx, id, seq)
		if err != nil {
			return server.StreamEnds, err
		}
		if told.ID == "" {
			if err := out.Event("job", 0, page.Job); err != nil {
				return server.StreamEnds, err
			}
			told = page.Job
		}
		for _, e := range page.Events {
			if err := out.Event("event", e.Seq, e); err != nil {
				return server.StreamEnds, err
			}
			seq = e.Seq
		}
		switch {
		case len(page.Events) == server.EventsPerPage:
			return server.StreamGoesOn, nil
		case page.Job.State.Terminal() && len(page.Events) == 0:
			return server.StreamEnds, out.Event("end", 0, page.Job)
		case page.Job.State.Terminal():
			return server.StreamGoesOn, nil // the last event may have been written after the job was read
		case len(page.Events) == 0 && sameProgress(told, page.Job):
			return server.StreamWaits, nil
		}
		told = page.Job
		return server.StreamWaits, out.Event("job", 0, page.Job)
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
	at, given, err := server.LastEvent(c)
	if err != nil {
		return err
	}
	if !given {
		if at, err = r.Store.LastPlace(ctx); err != nil {
			return err
		}
	}
	in, err := server.ScopeOf(c)
	if err != nil {
		return err
	}
	return r.Stream(c, func(ctx context.Context, out *server.EventWriter) (server.Following, error) {
		found, err := r.Store.EventsOfAll(ctx, in, at, server.EventsPerPage)
		if err != nil {
			return server.StreamEnds, err
		}
		for _, e := range found {
			if err := out.Event("event", e.Place, e); err != nil {
				return server.StreamEnds, err
			}
			at = e.Place
		}
		if len(found) == server.EventsPerPage {
			return server.StreamGoesOn, nil
		}
		return server.StreamWaits, nil
	})
}
