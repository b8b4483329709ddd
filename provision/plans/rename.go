package plans

import (
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// renamePlan gives an instance that is off another name: first its domain, then, with the end of that stage, its row. From then on
// another instance may have the former name, so nothing is undone any more, and the node serves the new one.
func (t *task) renamePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "rename", Run: t.rename, Undo: strict(t.keepName)},
		{Name: "publish", Run: t.publishName, Final: true},
	}}
}

func (t *task) rename(ctx context.Context) error {
	var spec seedbed.RenameJob
	if err := t.input(&spec); err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	switch other, err := t.store.InstanceByName(ctx, seedbed.InstanceName{Project: inst.Project, Name: spec.To}); {
	case err == nil && other.ID != inst.ID:
		return seedbed.Errorf(seedbed.ErrConflict, "another instance has got the name %q in the meantime", spec.To)
	case err != nil && !errors.Is(err, seedbed.ErrNotFound):
		return engine.FromStore(err)
	}
	if err := t.renameDomain(ctx, inst, spec.To); err != nil {
		return err
	}
	t.Result.Renamed = spec.To // takes effect when the stage is done
	return nil
}

// keepName gives the domain the name that the instance has, which changes only with the end of the stage.
func (t *task) keepName(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	return t.renameDomain(ctx, inst, inst.Name)
}

func (t *task) renameDomain(ctx context.Context, inst seedbed.Instance, name string) error {
	to := seedbed.InstanceName{Project: inst.Project, Name: name}.String()
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.RenameDomain.Do(ctx, t.Worker(), call, effects.NamedDomain{ID: inst.ID, Name: to})
	})
	if err != nil {
		return fmt.Errorf("rename domain %s to %s: %w", t.Job.Subject, to, err)
	}
	t.Event("info", 100, "the domain of instance %s has the name %s", t.Job.Subject, to)
	return nil
}

// publishName makes the guest plane of the node serve the instance by its new name. One that is down is not waited for: the guest is off.
func (t *task) publishName(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if _, err := t.refresh(ctx, inst.Node, inst.ID); err != nil {
		return err
	}
	t.Event("info", 100, "instance %s has the name %s", t.Job.Subject, inst.Name)
	return nil
}
