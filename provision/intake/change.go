package intake

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"seedbed"
)

// renameParams are the params of a rename.
type renameParams struct {
	// Name is the new name.
	Name string `json:"name"`
}

// paramsOf decodes the params of a request to change an instance, which are those of the API's request. It returns ErrInvalid for others.
// Their names count as they are written: what a hook may not ask for is known by its name.
func paramsOf[T any](req seedbed.Request) (v T, err error) {
	text, err := json.Marshal(req.Params)
	if err == nil {
		err = json.Unmarshal(text, &v, json.RejectUnknownMembers(true))
	}
	if err == nil {
		return v, nil
	}
	why := "expected a map with the members of the API's request"
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		inner, known := errors.AsType[*seedbed.Error](e.Err)
		switch {
		case errors.Is(e, json.ErrUnknownName):
			why = string(e.JSONPointer) + " is unknown"
		case known:
			why = string(e.JSONPointer) + ": " + inner.Msg
		default:
			why = string(e.JSONPointer) + " has the wrong type"
		}
	}
	return v, seedbed.Errorf(seedbed.ErrInvalid, "the params of %s are wrong: %s", req.Action, seedbed.Clip(why))
}

// cloneParams returns what a request asks for that clones an instance. The node is not among the params.
func cloneParams(req seedbed.Request) (c seedbed.CloneRequest, err error) {
	if c, err = paramsOf[seedbed.CloneRequest](req); err != nil {
		return c, err
	}
	if c.Node != "" {
		return c, seedbed.Errorf(seedbed.ErrInvalid, "the params of clone have no node: it is a member of its own")
	}
	c.Node = req.Node
	return c, nil
}

// change is how a request to change an instance is accepted and planned.
type change struct {
	accept func(ctx context.Context, delivery *seedbed.Delivery) (seedbed.Receipt, error)
	plan   func(ctx context.Context) (seedbed.Plan, error)
}

// changeOf returns the change that a request asks for: it resizes, changes, renames or clones an instance.
func (in *Intake) changeOf(req seedbed.Request) (change, error) {
	name, o := seedbed.Named(req.Project, req.Name), req.JobOptions
	switch req.Action {
	case seedbed.DoResize:
		p, err := paramsOf[seedbed.ResizeRequest](req)
		return change{
			func(ctx context.Context, d *seedbed.Delivery) (seedbed.Receipt, error) {
				return in.resize(ctx, name, p, o, d)
			},
			func(ctx context.Context) (seedbed.Plan, error) { return in.PlanResize(ctx, name, p) },
		}, err
	case seedbed.DoSet:
		p, err := paramsOf[seedbed.HardwareChange](req)
		return change{
			func(ctx context.Context, d *seedbed.Delivery) (seedbed.Receipt, error) {
				return in.set(ctx, name, p, o, d)
			},
			func(ctx context.Context) (seedbed.Plan, error) { return in.PlanSet(ctx, name, p) },
		}, err
	case seedbed.DoRename:
		p, err := paramsOf[renameParams](req)
		return change{
			func(ctx context.Context, d *seedbed.Delivery) (seedbed.Receipt, error) {
				return in.rename(ctx, name, p.Name, o, d)
			},
			func(ctx context.Context) (seedbed.Plan, error) { return in.PlanRename(ctx, name, p.Name) },
		}, err
	}
	p, err := cloneParams(req)
	return change{
		func(ctx context.Context, d *seedbed.Delivery) (seedbed.Receipt, error) {
			return in.clone(ctx, name, p, o, d)
		},
		func(ctx context.Context) (seedbed.Plan, error) { return in.PlanClone(ctx, name, p) },
	}, err
}

// changeJob accepts a request to resize, change, rename or clone an instance.
func (in *Intake) changeJob(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	c, err := in.changeOf(req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return c.accept(ctx, delivery)
}

// planChange returns the plan of a request that changeJob accepts. It writes nothing.
func (in *Intake) planChange(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	c, err := in.changeOf(req)
	if err == nil {
		return c.plan(ctx)
	}
	plan := seedbed.Plan{Project: req.Project, Name: req.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{},
		Stages: in.stages(&seedbed.Job{Kind: seedbed.ChangeActions()[req.Action]})}
	return plan, note(&plan, err)
}
