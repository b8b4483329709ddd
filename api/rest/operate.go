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

func (r *router) cleanup(ctx context.Context, c *fiber.Ctx) (any, error) {
	var req wire.CleanupRequest
	if err := server.Receive(c, &req); err != nil {
		return nil, err
	}
	return r.Clean(ctx, req.DryRun, req.Force)
}
