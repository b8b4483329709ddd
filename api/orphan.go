package api

import (
	"context"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Leftovers are what jobs that were undone have left behind.
type Leftovers interface {
	// Orphans are all of it, of what has been left for the longest first.
	Orphans(ctx context.Context) ([]seedbed.Orphan, error)
	// Strays are what carries our tag and is of nothing that is known.
	Strays(ctx context.Context) ([]seedbed.Orphan, error)
	// UndoAgain has such a job undone once more; ErrConflict, ErrNotFound or ErrInUse
	// when that would touch what is another's by now.
	UndoAgain(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
}

// orphans lists what was left behind.
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

// undoJob has a job that has left something behind undone once more.
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
