package api

import (
	"context"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Leftovers finds and removes what undone jobs have left behind.
type Leftovers interface {
	// Orphans returns all orphans of undone jobs, oldest first.
	Orphans(ctx context.Context) ([]seedbed.Orphan, error)
	// Strays returns the resources that carry Seedbed's tag and have no owner in the database.
	Strays(ctx context.Context) ([]seedbed.Orphan, error)
	// UndoAgain undoes a job again. It returns ErrConflict, ErrNotFound or ErrInUse if that would
	// touch resources that something else owns by now.
	UndoAgain(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
}

// orphans lists the orphans.
func (r *router) orphans(ctx context.Context, c *fiber.Ctx) error {
	all, err := r.Store.Orphans(ctx)
	if err != nil {
		return err
	}
	strays, err := r.Store.Strays(ctx)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, append(all, strays...))
}

// undoJob undoes again a job that has left something behind.
func (r *router) undoJob(ctx context.Context, c *fiber.Ctx) error {
	j, err := r.asked(ctx, c)
	if err != nil {
		return err
	}
	if j, err = r.Store.UndoAgain(ctx, j.ID); err != nil {
		return err
	}
	return reply(c, fiber.StatusAccepted, j)
}
