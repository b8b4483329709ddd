package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) startInstance(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	return r.submit(ctx, c, seedbed.Request{Action: seedbed.DoStart, JobOptions: o})
}

// submit starts a job that acts on the instance that the path names.
func (r *router) submit(ctx context.Context, c *fiber.Ctx, req seedbed.Request) (seedbed.Receipt, error) {
	req.Project, req.Name = server.CallerOf(c).Project, c.Params("name")
	if err := seedbed.CheckInstanceName(req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	return r.Intake.Submit(ctx, req, nil)
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
func (r *router) power(action string) server.Handler {
	return r.acceptOn(func(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
		var p wire.PowerRequest
		if c.Context().Request.Header.ContentLength() != 0 {
			if err := server.Receive(c, &p); err != nil {
				return seedbed.Receipt{}, err
			}
		}
		return r.submit(ctx, c, seedbed.Request{Action: action, Params: powerParams(p, nil), JobOptions: o})
	})
}

func (r *router) rebuild(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req wire.RebuildRequest
	if err := server.ReceiveUpTo(c, &req, r.MaxDocuments()); err != nil {
		return seedbed.Receipt{}, err
	}
	profile := req.Profile
	if i, err := r.named(ctx, c); err == nil && profile == "" {
		profile = i.Profile
	}
	r.WithholdSecrets(ctx, c, profile, req.Params)
	if err := server.CheckParams(ctx, c, req.Params); err != nil {
		return seedbed.Receipt{}, err
	}
	return r.submit(ctx, c, seedbed.Request{
		Action: seedbed.DoRebuild, Profile: req.Profile, Image: req.Image,
		Params: powerParams(req.PowerRequest, req.Params), Confirm: req.Confirm, JobOptions: o,
	})
}

// plan answers what a create or a rebuild would make, and the problems that would prevent it. It
// refuses the options of the job that the request would have, if they are wrong.
func (r *router) plan(ctx context.Context, c *fiber.Ctx) (any, error) {
	if _, err := r.JobOptions(ctx, c); err != nil {
		return nil, err
	}
	var req wire.PlanRequest
	if err := server.ReceiveUpTo(c, &req, r.MaxDocuments()); err != nil {
		return nil, err
	}
	switch {
	case req.Action == "" || req.Action == seedbed.DoCreate:
		req.Action = seedbed.DoPlan
	case req.Action != seedbed.DoRebuild:
		return nil, server.Invalid("action %q: expected create or rebuild", seedbed.Clip(req.Action))
	case req.Node != "" || req.Network != "" || req.NICs != nil || req.SecurityGroups != nil:
		return nil, server.Invalid("node, network, nics and security_groups are only for a create: an instance stays where it is")
	case req.Hold != nil || req.Protected != nil:
		return nil, server.Invalid("hold and protected are only for a create (see seedbed vm protect)")
	case req.Ready != "":
		return nil, server.Invalid("ready is only for a create: a rebuild is ready as its profile says")
	}
	if err := server.ChoosesNode(c, req.Node); err != nil {
		return nil, err
	}
	plan := newInstance(req.NewInstance)
	plan.Project = server.CallerOf(c).Project
	plan.Action, plan.Name, plan.Profile, plan.Image, plan.Params = req.Action, req.Name, req.Profile, req.Image, req.Params
	p, err := r.Intake.Plan(ctx, plan)
	if err != nil {
		return nil, err
	}
	if err := server.CheckParams(ctx, c, req.Params); err != nil {
		p.Problems = append(p.Problems, err.Error())
	}
	return p, nil
}
