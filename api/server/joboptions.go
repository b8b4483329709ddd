package server

import (
	"context"
	"regexp"
	"strings"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// JobOptions returns the options that a request has for its job. It looks for the job that the new
// one comes after, so that an unknown one is refused before the client has sent a file.
func (r *Router) JobOptions(ctx context.Context, c *fiber.Ctx) (o seedbed.JobOptions, err error) {
	if o.OnFailure, err = seedbed.ParseOnFailure(c.Query("on_failure")); err != nil {
		return o, err
	}
	if o.Priority, err = seedbed.ParsePriority(c.Query("priority")); err != nil {
		return o, err
	}
	if id := c.Query("after"); id != "" {
		if !JobForm.MatchString(id) {
			return o, Invalid("after %q: expected the ID of a job, or at least its first 8 characters", seedbed.Clip(id))
		}
		before, err := r.Store.FindJob(ctx, seedbed.InProject(CallerOf(c).Project), strings.Clone(id))
		if err != nil {
			return o, err
		}
		o.After = before.ID
	}
	return o, nil
}

// JobForm matches a job's ID or at least its first eight characters.
var JobForm = regexp.MustCompile(`^[0-9a-f]{8}[0-9a-f-]{0,28}$`)
