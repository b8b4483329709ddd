package api

import (
	"context"
	"sync"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) health(_ context.Context, c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, wire.Health{Status: "ok", Version: r.Version, Node: r.Node})
}

func (r *router) description(_ context.Context, c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/yaml")
	return c.SendString(Description)
}

func (r *router) doctor(ctx context.Context, c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, r.examine(ctx))
}

// examine runs the checks concurrently, so that one that hangs until its deadline does not use up
// the time of the others.
func (r *router) examine(ctx context.Context) []seedbed.Check {
	found := make([][]seedbed.Check, len(r.Checks))
	var wg sync.WaitGroup
	for i, check := range r.Checks {
		wg.Go(func() { found[i] = check(ctx) })
	}
	wg.Wait()
	var all []seedbed.Check
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

func (r *router) cleanup(ctx context.Context, c *fiber.Ctx) error {
	var req wire.CleanupRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	report, err := r.Clean(ctx, req.DryRun, req.Force)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, report)
}

func (r *router) networks(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.Networks)
}

func (r *router) leases(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.Leases)
}
