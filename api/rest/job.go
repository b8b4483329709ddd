package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

const jobLength = 36

// asked returns the job that the path names.
func (r *router) asked(ctx context.Context, c *fiber.Ctx) (seedbed.Job, error) {
	id := c.Params("id")
	if !server.JobForm.MatchString(id) {
		return seedbed.Job{}, server.Invalid("job %q: want a job's ID, or at least the first 8 characters of it", seedbed.Clip(id))
	}
	if len(id) == jobLength {
		return r.Store.Job(ctx, seedbed.JobID(id))
	}
	return r.Store.JobByPrefix(ctx, id)
}

func (r *router) job(ctx context.Context, c *fiber.Ctx) (any, error) {
	j, err := r.asked(ctx, c)
	if err != nil {
		return nil, err
	}
	stages, err := r.Store.Stages(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return wire.JobStatus{Job: j, Stages: stages}, nil
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
	return server.Reply(c, fiber.StatusAccepted, j)
}

func (r *router) events(ctx context.Context, c *fiber.Ctx) error {
	if server.WantsEvents(c) {
		return r.streamJob(ctx, c)
	}
	seq, err := server.After(c)
	if err != nil {
		return err
	}
	hold, err := server.Wait(c)
	if err != nil {
		return err
	}
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	page, err := r.Await(ctx, j.ID, seq, hold)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, page)
}
