package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
	"seedbed/provision/placement"
	"seedbed/provision/record"
)

// Resize accepts a request to give the instance called name a larger disk, or other vCPUs and
// memory. Errors: seedbed.ErrNotFound for an instance or disk that does not exist, ErrInvalid for a
// size that is out of range, smaller than the disk, or unchanged, ErrConflict for vCPUs or memory
// of an instance that runs or whose script made its domain, ErrForbidden if the quota of its token
// does not allow it, and otherwise those of Flatten.
func (in *Intake) Resize(ctx context.Context, name seedbed.InstanceName, req seedbed.ResizeRequest,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.resize(ctx, name, req, o, nil)
}

// resize is Resize for a request that a delivery may have carried.
func (in *Intake) resize(ctx context.Context, name seedbed.InstanceName, req seedbed.ResizeRequest, o seedbed.JobOptions,
	delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	inst, spec, err := in.resized(ctx, name, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	warnings, err := in.room(ctx, inst.Node, growth(inst, spec), false)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job := jobOn(inst, seedbed.JobResize, o)
	if job.Spec, err = json.Marshal(spec); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the resize of %s: %w", inst.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Delivery: delivery, Warnings: warnings})
}

func (in *Intake) resized(ctx context.Context, name seedbed.InstanceName,
	req seedbed.ResizeRequest) (inst seedbed.Instance, spec seedbed.ResizeSpec, err error) {
	if err := name.Check(); err != nil {
		return inst, spec, err
	}
	if inst, err = in.store.InstanceByName(ctx, name); err != nil {
		return inst, spec, err
	}
	if spec, err = req.SpecOf(inst); err != nil || !spec.Machine() {
		return inst, spec, err
	}
	if err := record.CheckMachine(ctx, in.store, inst); err != nil {
		return inst, spec, err
	}
	more := placement.Demand{Name: inst.Name, VCPUs: cmp.Or(spec.VCPUs, inst.VCPUs), Memory: cmp.Or(spec.Memory, inst.Memory),
		Restarts: inst.System.Restart == seedbed.RestartAlways}
	err = in.placer.Fits(ctx, inst.Node, more, useOf(inst))
	return inst, spec, unplaced(ctx, err)
}

// useOf returns what an instance uses of its node.
func useOf(inst seedbed.Instance) seedbed.NodeUse {
	u := seedbed.NodeUse{VCPUs: inst.VCPUs, Memory: inst.Memory}
	if inst.System.Restart == seedbed.RestartAlways {
		u.Restarts = inst.Memory
	}
	return u
}

// growth returns by how much the volumes of an instance grow in each pool.
func growth(inst seedbed.Instance, spec seedbed.ResizeSpec) map[string]seedbed.Bytes {
	for _, v := range inst.Volumes {
		if spec.Size > 0 && v.Pool == spec.Pool && v.Name == spec.Volume {
			return map[string]seedbed.Bytes{v.Pool: spec.Size - v.Size}
		}
	}
	return nil
}

// PlanResize returns what a resize would make of the instance, and why it would not be accepted. It
// writes nothing. It returns an error only if the store fails.
func (in *Intake) PlanResize(ctx context.Context, name seedbed.InstanceName, req seedbed.ResizeRequest) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: name.Project, Name: name.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	inst, spec, err := in.resized(ctx, name, req)
	if err != nil {
		return p, note(&p, err)
	}
	next, err := spec.Of(inst)
	if err != nil {
		return p, note(&p, err)
	}
	p.Profile, p.Image, p.Node, p.VCPUs, p.Memory, p.Volumes, p.NICs = next.Profile, next.Image, next.Node, next.VCPUs, next.Memory,
		next.Volumes, next.NICs
	switch {
	case inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped:
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: it must be running or stopped to be resized", inst.Name, inst.State))
	case spec.Machine() && inst.State != seedbed.InstanceStopped:
		p.Problems = append(p.Problems,
			fmt.Sprintf("instance %q is %s: vcpus and memory can be changed while it is stopped (seedbed vm stop)", inst.Name, inst.State))
	}
	notes, err := in.room(ctx, inst.Node, growth(inst, spec), false)
	p.Notes = append(p.Notes, notes...)
	return p, err
}
