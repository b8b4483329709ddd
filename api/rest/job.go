package rest

import (
	"cmp"
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

// readOrphans returns the orphans and the strays that the caller sees. A tenant sees no strays: none of its
// instances has them. Where its orphans are, and why they are left, is known to the installation.
func (r *router) readOrphans(ctx context.Context, c *fiber.Ctx) ([]seedbed.Orphan, error) {
	in, err := server.SiteScopeOf(c)
	if err != nil {
		return nil, err
	}
	if err := server.ChoosesNode(c, c.Query("node")); err != nil {
		return nil, err
	}
	all, err := r.Store.Orphans(ctx)
	if err != nil {
		return nil, err
	}
	tenant := seedbed.IsTenant(ctx)
	if !tenant {
		strays, err := r.Store.Strays(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, strays...)
	}
	var seen []seedbed.Orphan
	for _, o := range all {
		if !in.Sees(cmp.Or(o.Project, seedbed.DefaultProject)) {
			continue
		}
		if tenant {
			o.Node, o.Why = "", leftBehind
		}
		seen = append(seen, o)
	}
	return seen, nil
}

// leftBehind is what a tenant reads of why an orphan is left.
const leftBehind = "it could not be removed; the cleanup tries again"

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
