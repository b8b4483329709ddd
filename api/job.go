package api

import (
	"context"
	"regexp"
	"time"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

const (
	// maxWait is the longest time for which an answer waits for events.
	maxWait = 30 * time.Second
	// pollInterval is how often events are read without a hint. Writes of other processes give no
	// hint.
	pollInterval = time.Second
	eventPage    = 500
)

// jobForm matches a job's ID or at least its first eight characters.
var jobForm = regexp.MustCompile(`^[0-9a-f]{8}[0-9a-f-]{0,28}$`)

const jobLength = 36

// asked returns the job that the path names.
func (r *router) asked(ctx context.Context, c *fiber.Ctx) (seedbed.Job, error) {
	id := c.Params("id")
	if !jobForm.MatchString(id) {
		return seedbed.Job{}, invalid("job %q: want a job's ID, or at least the first 8 characters of it", seedbed.Clip(id))
	}
	if len(id) == jobLength {
		return r.Store.Job(ctx, seedbed.JobID(id))
	}
	return r.Store.JobByPrefix(ctx, id)
}

func (r *router) job(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	stages, err := r.Store.Stages(ctx, j.ID)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, wire.JobStatus{Job: j, Stages: stages})
}

func (r *router) cancelJob(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Store.CancelJob(ctx, j.ID); err != nil {
		return err
	}
	if j, err = r.Store.Job(ctx, j.ID); err != nil {
		return err
	}
	return reply(c, fiber.StatusAccepted, j)
}

func (r *router) events(ctx context.Context, c *fiber.Ctx) error {
	if wantsEvents(c) {
		return r.streamJob(ctx, c)
	}
	seq, err := after(c)
	if err != nil {
		return err
	}
	hold, err := wait(c)
	if err != nil {
		return err
	}
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	page, err := r.await(ctx, j.ID, seq, hold)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, page)
}

// await returns the events after seq. If there are none, it waits for them, at most for hold.
func (r *router) await(ctx context.Context, id seedbed.JobID, seq int64, hold time.Duration) (page wire.EventPage, err error) {
	err = r.holdBack(ctx, hold, func() (bool, error) {
		page, err = r.page(ctx, id, seq)
		return len(page.Events) > 0 || page.Job.State.Terminal(), err
	})
	return page, err
}

// holdBack calls look until it returns true, hold has passed, or the server stops. If too many
// requests wait already, it calls look only once.
func (r *router) holdBack(ctx context.Context, hold time.Duration, look func() (bool, error)) error {
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

func (r *router) page(ctx context.Context, id seedbed.JobID, seq int64) (page wire.EventPage, err error) {
	if page.Job, err = r.Store.Job(ctx, id); err != nil {
		return page, err
	}
	page.Events, err = r.Store.Events(ctx, id, seq, eventPage)
	return page, err
}
