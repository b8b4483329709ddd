package rest

import (
	"context"
	"time"

	"seedbed"
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

// lastJobs is how many jobs an overview shows.
const lastJobs = 5

func (r *router) overview(ctx context.Context, c *fiber.Ctx) (any, error) {
	in, err := server.ScopeOf(c)
	if err != nil {
		return nil, err
	}
	census, err := r.Store.Counts(ctx, in, time.Now().UTC().Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	jobs, err := r.Store.ListJobs(ctx, seedbed.JobQuery{Scope: in, Limit: lastJobs})
	if err != nil {
		return nil, err
	}
	project, _ := in.One()
	if !server.CallerOf(c).May(seedbed.ActionInstallationRead) { // it has the nodes and the checks
		return wire.Overview{
			Version: r.Version, Project: project, Nodes: map[seedbed.NodeState]int{}, Wrong: []seedbed.Check{}, Counts: census, Jobs: jobs,
		}, nil
	}
	nodes, err := r.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	states := map[seedbed.NodeState]int{}
	for _, n := range nodes {
		states[n.State]++
	}
	ctx, cancel := context.WithTimeout(ctx, server.StatusTimeout)
	defer cancel()
	checks := r.Examine(ctx)
	wrong := []seedbed.Check{}
	for _, ch := range checks {
		if !ch.OK {
			wrong = append(wrong, ch)
		}
	}
	return wire.Overview{
		Version: r.Version, Node: r.Node, Project: project, Nodes: states, Checks: len(checks), Wrong: wrong, Counts: census, Jobs: jobs,
	}, nil
}
