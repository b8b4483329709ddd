package rest

import (
	"cmp"
	"context"
	"fmt"

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
		if err := server.ReceiveAny(c, &p); err != nil {
			return seedbed.Receipt{}, err
		}
		return r.submit(ctx, c, seedbed.Request{Action: action, Params: powerParams(p, nil), JobOptions: o})
	})
}

// migrate accepts a job that takes the instance that the path names to another node, or answers its plan.
func (r *router) migrate(ctx context.Context, c *fiber.Ctx) error {
	var m wire.MigrateRequest
	if err := server.ReceiveAny(c, &m); err != nil {
		return err
	}
	return r.jobOrPlan(ctx, c, seedbed.Request{Action: seedbed.DoMigrate, Node: m.Node, Params: migrateParams(m)}, m.DryRun)
}

// migrateParams returns the parameters of a request to take an instance to another node.
func migrateParams(m wire.MigrateRequest) map[string]any {
	params := powerParams(m.PowerRequest, nil)
	if m.Method != "" {
		params["method"] = m.Method
	}
	if m.Back {
		params["back"] = true
	}
	if m.Stay {
		params["stay"] = true
	}
	return params
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
	case req.Expires+req.AtExpiry != "":
		return nil, server.Invalid("expires and at_expiry are only for a create (see seedbed vm extend)")
	case req.Ready != "":
		return nil, server.Invalid("ready is only for a create: a rebuild is ready as its profile says")
	}
	if err := cmp.Or(server.ChoosesNode(c, req.Node), expires(c, req.NewInstance)); err != nil {
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

// nics returns the list of an instance's NICs.
func (r *router) nics() listing[seedbed.NIC] {
	return listing[seedbed.NIC]{
		kind: "NIC", place: func(n seedbed.NIC) string { return fmt.Sprintf("%03d", n.Index) },
		read: func(ctx context.Context, c *fiber.Ctx) ([]seedbed.NIC, error) {
			i, err := r.named(ctx, c)
			if err == nil {
				err = r.showAddrs6(ctx, i)
			}
			return i.NICs, err
		},
	}
}

func (r *router) addNIC(ctx context.Context, c *fiber.Ctx) error {
	var req wire.NICRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	return r.changeNIC(ctx, c, seedbed.Request{Action: seedbed.DoNICAdd, NICs: []seedbed.NICRequest{req.NICRequest}}, req.DryRun)
}

func (r *router) setNIC(ctx context.Context, c *fiber.Ctx) error {
	var req wire.NICChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	nics := []seedbed.NICRequest{{Network: req.Network, Addr: req.Addr}}
	return r.changeNIC(ctx, c, seedbed.Request{Action: seedbed.DoNICSet, NICs: nics}, req.DryRun)
}

func (r *router) removeNIC(ctx context.Context, c *fiber.Ctx) error {
	dry, err := switched(c, "dry_run")
	if err != nil {
		return err
	}
	return r.changeNIC(ctx, c, seedbed.Request{Action: seedbed.DoNICRemove}, dry)
}

// changeNIC is jobOrPlan for a job on a NIC. The path names the NIC as well, unless it is a new one.
func (r *router) changeNIC(ctx context.Context, c *fiber.Ctx, req seedbed.Request, dry bool) error {
	if req.Action != seedbed.DoNICAdd {
		i, err := r.named(ctx, c)
		if err != nil {
			return err
		}
		nic, err := i.NICNamed(server.Param(c, "nic"))
		if err != nil {
			return err
		}
		req.NIC = &nic.Index
	}
	return r.jobOrPlan(ctx, c, req, dry)
}

// jobOrPlan accepts a job on the instance that the path names, or answers its plan.
func (r *router) jobOrPlan(ctx context.Context, c *fiber.Ctx, req seedbed.Request, dry bool) (err error) {
	if req.JobOptions, err = r.JobOptions(ctx, c); err != nil {
		return err
	}
	i, err := r.named(ctx, c)
	if err != nil {
		return err
	}
	req.Project, req.Name = i.Project, i.Name
	return r.submitOrPlan(server.OnMatch(ctx, c), c, req, dry)
}

// submitOrPlan accepts a request, or answers its plan.
func (r *router) submitOrPlan(ctx context.Context, c *fiber.Ctx, req seedbed.Request, dry bool) error {
	if dry {
		p, err := r.Intake.Plan(ctx, req)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, p)
	}
	receipt, err := r.Intake.Submit(ctx, req, nil)
	if err != nil {
		return err
	}
	return server.Accepted(c, receipt)
}
