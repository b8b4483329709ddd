package rest

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// asked returns the job that the path names.
func (r *router) asked(ctx context.Context, c *fiber.Ctx) (seedbed.Job, error) {
	id := c.Params("id")
	if !server.JobForm.MatchString(id) {
		return seedbed.Job{}, server.Invalid("job %q: expected the ID of a job, or at least its first 8 characters", seedbed.Clip(id))
	}
	return r.Store.FindJob(ctx, server.CallerOf(c).Scope(), id)
}

// job answers a job with its stages. The ETag is that of the job, which changes with each stage.
func (r *router) job(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	stages, err := r.Store.Stages(ctx, j.ID)
	if err != nil {
		return err
	}
	return server.Tagged(c, jobTag(j), wire.JobStatus{Job: j, Stages: stages})
}

// jobTag returns the entity tag of a job. It does not cover the lease, which its owner renews.
func jobTag(j seedbed.Job) string {
	j.LeaseUntil = time.Time{}
	return server.ContentTag(j)
}

// ifJob returns the check of a job against the request's If-Match header.
func ifJob(c *fiber.Ctx) func(seedbed.Job) error { return server.IfMatch(c, jobTag) }

func (r *router) cancelJob(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	if err := r.Store.CancelJob(ctx, j.ID, ifJob(c)); err != nil {
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

// readOrphans returns the orphans and the strays.
func (r *router) readOrphans(ctx context.Context) ([]seedbed.Orphan, error) {
	all, err := r.Store.Orphans(ctx)
	if err != nil {
		return nil, err
	}
	strays, err := r.Store.Strays(ctx)
	if err != nil {
		return nil, err
	}
	return append(all, strays...), nil
}

// undoJob undoes again a job that has left something behind.
func (r *router) undoJob(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	if j, err = r.Store.UndoAgain(ctx, j.ID, ifJob(c)); err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusAccepted, j)
}
