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
	Version string          `json:"version"`
	Node    string          `json:"node"`
	Checks  int             `json:"checks"`
	Wrong   []seedbed.Check `json:"wrong"`
	Census  seedbed.Census  `json:"census"`
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
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	checks := r.examine(ctx)
	wrong := []seedbed.Check{}
	for _, ch := range checks {
		if !ch.OK {
			wrong = append(wrong, ch)
		}
	}
	return reply(c, fiber.StatusOK, overview{r.Version, r.Node, len(checks), wrong, census, jobs})
}
