package rest

import (
	"context"

	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) health(_ context.Context, c *fiber.Ctx) error {
	return server.Reply(c, fiber.StatusOK, wire.Health{Status: "ok", Version: r.Version, Node: r.Node})
}

func (r *router) description(_ context.Context, c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/yaml")
	return c.SendString(r.Description)
}

func (r *router) doctor(ctx context.Context, c *fiber.Ctx) error {
	return server.Reply(c, fiber.StatusOK, r.Examine(ctx))
}

func (r *router) cleanup(ctx context.Context, c *fiber.Ctx) error {
	var req wire.CleanupRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	report, err := r.Clean(ctx, req.DryRun, req.Force)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, report)
}

func (r *router) networks(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.Networks)
}

func (r *router) leases(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.Leases)
}
