package api

import (
	"context"
	"strings"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// outputLines is the most lines of output in one answer.
const outputLines = 1000

// jobOutput answers the lines after a given number. Like the answer with events, it can wait for
// new lines.
func (r *router) jobOutput(ctx context.Context, c *fiber.Ctx) error {
	n, err := after(c)
	if err != nil {
		return err
	}
	hold, err := wait(c)
	if err != nil {
		return err
	}
	stage := c.Query("stage")
	if stage != "" {
		if err := seedbed.CheckName("stage", stage); err != nil {
			return err
		}
	}
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	var page wire.OutputPage
	err = r.holdBack(ctx, hold, func() (bool, error) {
		if page.Job, err = r.Store.Job(ctx, j.ID); err != nil {
			return false, err
		}
		page.Lines, err = r.Store.JobOutput(ctx, j.ID, stage, n, outputLines)
		return len(page.Lines) > 0 || page.Job.State.Terminal(), err
	})
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, page)
}

// withJobOptions returns ctx with the request's options for its job.
func (r *router) withJobOptions(ctx context.Context, c *fiber.Ctx) (context.Context, error) {
	if c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead {
		return ctx, nil
	}
	var o seedbed.JobOptions
	var err error
	if o.OnFailure, err = seedbed.ParseOnFailure(c.Query("on_failure")); err != nil {
		return ctx, err
	}
	if o.Priority, err = seedbed.ParsePriority(c.Query("priority")); err != nil {
		return ctx, err
	}
	if id := c.Query("after"); id != "" {
		if !jobForm.MatchString(id) {
			return ctx, invalid("after %q: want a job's ID, or at least the first 8 characters of it", seedbed.Clip(id))
		}
		before, err := r.Store.JobByPrefix(ctx, strings.Clone(id))
		if err != nil {
			return ctx, err
		}
		o.After = before.ID
	}
	if o == (seedbed.JobOptions{}) {
		return ctx, nil
	}
	return seedbed.WithJobOptions(ctx, o), nil
}
