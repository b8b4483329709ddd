package rest

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// lastJobs is how many jobs an overview shows.
const lastJobs = 5

func (r *router) overview(ctx context.Context, c *fiber.Ctx) (any, error) {
	census, err := r.Store.Counts(ctx, time.Now().UTC().Add(-24*time.Hour))
	if err != nil {
		return nil, err
	}
	jobs, err := r.Store.ListJobs(ctx, seedbed.JobQuery{Limit: lastJobs})
	if err != nil {
		return nil, err
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
		Version: r.Version, Node: r.Node, Nodes: states, Checks: len(checks), Wrong: wrong, Counts: census, Jobs: jobs,
	}, nil
}
