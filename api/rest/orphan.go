package rest

import (
	"context"

	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// orphans lists the orphans.
func (r *router) orphans(ctx context.Context, c *fiber.Ctx) (any, error) {
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
	if j, err = r.Store.UndoAgain(ctx, j.ID); err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusAccepted, j)
}
