package api

import (
	"context"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Censuses count what there is.
type Censuses interface {
	Census(ctx context.Context, since time.Time) (seedbed.Census, error)
}

// overview is an installation on one page.
type overview struct {
	Version string `json:"version"`
	Node    string `json:"node"`
	// Nodes is how many hypervisors are in which state.
	Nodes  map[seedbed.NodeState]int `json:"nodes"`
	Checks int                       `json:"checks"`
	Wrong  []seedbed.Check           `json:"wrong"`
	Census seedbed.Census            `json:"census"`
	// Jobs are the last ones, the newest first.
	Jobs []seedbed.Job `json:"jobs"`
}

// lastJobs is how many of them an overview shows.
const lastJobs = 5

func (r *router) overview(ctx context.Context, c *fiber.Ctx) error {
	census, err := r.Store.Census(ctx, time.Now().UTC().Add(-24*time.Hour))
	if err != nil {
		return err
	}
	jobs, err := r.Store.ListJobs(ctx, seedbed.JobQuery{Limit: lastJobs})
	if err != nil {
		return err
	}
	nodes, err := r.statuses(ctx)
	if err != nil {
		return err
	}
	states := map[seedbed.NodeState]int{}
	for _, n := range nodes {
		states[n.State]++
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	checks := r.examine(ctx)
	wrong := []seedbed.Check{}
	for _, ch := range checks {
		if !ch.OK {
			wrong = append(wrong, ch)
		}
	}
	return reply(c, fiber.StatusOK, overview{r.Version, r.Node, states, len(checks), wrong, census, jobs})
}
