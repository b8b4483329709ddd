package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// outputLines is the most lines of output in one answer.
const outputLines = 1000

// jobOutput answers the lines after a given number. Like the answer with events, it can wait for
// new lines.
func (r *router) jobOutput(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.After(c)
	if err != nil {
		return nil, err
	}
	hold, err := server.Wait(c)
	if err != nil {
		return nil, err
	}
	stage := c.Query("stage")
	if stage != "" {
		if err := seedbed.CheckName("stage", stage); err != nil {
			return nil, err
		}
	}
	j, err := r.asked(ctx, c)
	if err != nil {
		return nil, err
	}
	var page wire.OutputPage
	err = r.HoldBack(ctx, hold, func() (bool, error) {
		if page.Job, err = r.Store.Job(ctx, j.ID); err != nil {
			return false, err
		}
		page.Lines, err = r.Store.JobOutput(ctx, j.ID, stage, n, outputLines)
		return len(page.Lines) > 0 || page.Job.State.Terminal(), err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}
