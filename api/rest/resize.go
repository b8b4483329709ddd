package rest

import (
	"context"

	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) resize(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ResizeRequest
	if err := server.Receive(c, &req); err != nil {
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
		return server.Reply(c, fiber.StatusOK, p)
	}
	receipt, err := r.VolumeJobs.Resize(ctx, i.Name, req.ResizeRequest, server.JobOptionsOf(c))
	if err != nil {
		return err
	}
	return server.Accepted(c, receipt)
}
