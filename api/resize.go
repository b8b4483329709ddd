package api

import (
	"context"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// Resizer makes jobs that resize instances.
type Resizer interface {
	Resize(ctx context.Context, instance string, req seedbed.ResizeRequest) (seedbed.Receipt, error)
	// PlanResize returns what a resize would change, and the problems that would prevent it.
	PlanResize(ctx context.Context, instance string, req seedbed.ResizeRequest) (seedbed.Plan, error)
}

func (r *router) resize(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ResizeRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	if req.DryRun {
		p, err := r.VolumeJobs.PlanResize(ctx, i.Name, req.ResizeRequest)
		if err != nil {
			return err
		}
		return reply(c, fiber.StatusOK, p)
	}
	receipt, err := r.VolumeJobs.Resize(ctx, i.Name, req.ResizeRequest)
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}
