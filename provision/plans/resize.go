package plans

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
	"seedbed/provision/record"
)

// resizePlan changes an instance's vCPUs and memory, and enlarges one of its disks. The first can
// be undone until the second has begun. A disk that has grown stays larger, because its guest may
// use the new space at once.
func (t *task) resizePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "redefine", Run: t.resizeMachine, Undo: strict(t.restoreMachine)},
		{Name: "grow", Run: t.growVolume, Final: true},
	}}
}

func (t *task) resizing(ctx context.Context) (spec seedbed.ResizeSpec, inst seedbed.Instance, err error) {
	if err := t.input(&spec); err != nil {
		return spec, inst, err
	}
	inst, err = t.Instance(ctx)
	return spec, inst, err
}

// resizeMachine gives the domain, which is off, its new size.
func (t *task) resizeMachine(ctx context.Context) error {
	spec, inst, err := t.resizing(ctx)
	if err != nil || !spec.Machine() {
		return err
	}
	if err := record.CheckMachine(ctx, t.store, inst); err != nil {
		return engine.FromStore(err)
	}
	if err := t.resizeDomain(ctx, spec.VCPUs, spec.Memory); err != nil {
		return err
	}
	t.Result.Resized = &seedbed.ResizeSpec{VCPUs: spec.VCPUs, Memory: spec.Memory}
	return nil
}

// restoreMachine gives the domain the size that the instance is recorded with, which changes only
// with the end of the stage.
func (t *task) restoreMachine(ctx context.Context) error {
	spec, inst, err := t.resizing(ctx)
	if err != nil || !spec.Machine() {
		return err
	}
	return t.resizeDomain(ctx, inst.VCPUs, inst.Memory)
}

func (t *task) resizeDomain(ctx context.Context, vcpus int, memory seedbed.Bytes) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.ResizeDomain.Do(ctx, t.Worker(), call, effects.DomainSize{ID: t.Job.Instance, VCPUs: vcpus, Memory: memory})
	})
	if err != nil {
		return fmt.Errorf("resize domain %s: %w", t.Job.Subject, err)
	}
	said := ""
	if vcpus > 0 {
		said = fmt.Sprintf(" %d vcpus", vcpus)
	}
	if memory > 0 {
		said += fmt.Sprintf(" %s of memory", memory)
	}
	t.Event("info", 100, "domain %s starts with%s from now on", t.Job.Subject, said)
	return nil
}

// growVolume enlarges the disk, and makes the guest plane serve the new size.
func (t *task) growVolume(ctx context.Context) error {
	spec, inst, err := t.resizing(ctx)
	if err != nil {
		return err
	}
	if spec.Machine() {
		if _, err := t.refresh(ctx, inst.Node, inst.ID); err != nil {
			return err
		}
	}
	if spec.Size == 0 {
		return nil
	}
	var info seedbed.VolumeInfo
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		info, err = effects.ResizeVolume.Do(ctx, t.Worker(), call,
			effects.VolumeSize{Pool: spec.Pool, Name: spec.Volume, Instance: inst.ID, Size: spec.Size})
		return err
	})
	if err != nil {
		return fmt.Errorf("make volume %s of pool %s larger: %w", spec.Volume, spec.Pool, err)
	}
	t.Event("info", 100, "volume %s of pool %s has %s now", info.Name, info.Pool, info.Size)
	t.Result.Resized = &seedbed.ResizeSpec{Pool: spec.Pool, Volume: spec.Volume, Size: info.Size}
	return nil
}
