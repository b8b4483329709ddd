package api

import (
	"context"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) startInstance(ctx context.Context, c *fiber.Ctx) error {
	return r.submit(ctx, c, seedbed.Request{Action: seedbed.DoStart})
}

// submit starts a job that acts on the instance that the path names.
func (r *router) submit(ctx context.Context, c *fiber.Ctx, req seedbed.Request) error {
	req.Name = c.Params("name")
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return err
	}
	receipt, err := r.Intake.Submit(ctx, req, nil)
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}

// powerParams adds p to a request's parameters. The intake checks them.
func powerParams(p wire.PowerRequest, to map[string]any) map[string]any {
	if to == nil {
		to = map[string]any{}
	}
	if p.Force {
		to["force"] = true
	}
	if p.Soft {
		to["soft"] = true
	}
	if p.Grace != "" {
		to["grace"] = p.Grace
	}
	return to
}

// power returns the handler that starts a job to stop or reboot the instance that the path names.
// The body is optional.
func (r *router) power(action string) handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		var p wire.PowerRequest
		if c.Context().Request.Header.ContentLength() != 0 {
			if err := receive(c, &p); err != nil {
				return err
			}
		}
		return r.submit(ctx, c, seedbed.Request{Action: action, Params: powerParams(p, nil)})
	}
}

func (r *router) rebuild(ctx context.Context, c *fiber.Ctx) error {
	var req wire.RebuildRequest
	if err := receive(c, &req, r.maxDocuments()); err != nil {
		return err
	}
	profile := req.Profile
	if i, err := r.named(ctx, c); err == nil && profile == "" {
		profile = i.Profile
	}
	r.withholdSecrets(ctx, c, profile, req.Params)
	return r.submit(ctx, c, seedbed.Request{
		Action: seedbed.DoRebuild, Profile: req.Profile, Image: req.Image, Params: powerParams(req.PowerRequest, req.Params), Confirm: req.Confirm,
	})
}

// plan answers what a create or a rebuild would make, and the problems that would prevent it.
func (r *router) plan(ctx context.Context, c *fiber.Ctx) error {
	var req wire.PlanRequest
	if err := receive(c, &req, r.maxDocuments()); err != nil {
		return err
	}
	switch {
	case req.Action == "" || req.Action == seedbed.DoCreate:
		if req.Action = seedbed.DoPlan; req.Image != "" {
			return invalid("image: only a rebuild takes one: want a profile")
		}
	case req.Action != seedbed.DoRebuild:
		return invalid("action %q: want create or rebuild", seedbed.Clip(req.Action))
	case req.Node != "":
		return invalid("node: only a create takes one: an instance stays where it is")
	case req.Hold != nil || req.Protected != nil:
		return invalid("hold and protected: only a create takes them (seedbed vm protect)")
	}
	p, err := r.Intake.Plan(ctx, seedbed.Request{Action: req.Action, Name: req.Name, Profile: req.Profile, Image: req.Image, Params: req.Params, Hold: req.Hold, Protected: req.Protected, Node: req.Node})
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, p)
}
