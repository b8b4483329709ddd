package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// rebuildPlan gives an instance new disks. The former disks exist until the last stage, so up to
// then the job can be undone and the instance runs on as before. The last stage cannot be undone.
func (t *task) rebuildPlan() engine.Plan {
	stages := t.diskRebuildStages()
	if rebuildBy(t.Job).Scripted {
		stages = t.scriptedRebuildStages()
	}
	return engine.Plan{Stages: stages, Restores: t.was()}
}

func (t *task) diskRebuildStages() []engine.Stage {
	return []engine.Stage{
		{Name: "shutdown", Run: t.shutdownGuest, Limit: t.shutdownLimit, Undo: strict(t.reassure)},
		{Name: "stop", Run: t.switchOffProbed, Undo: strict(t.switchOn), State: seedbed.InstanceStopped},
		{Name: "volumes", Run: t.makeNext, Undo: t.dropNext, Limit: t.volumesLimit, Made: t.madeVolumes},
		{Name: "redefine", Run: t.defineNext, Undo: strict(t.defineFormer)},
		{Name: "publish", Run: t.publishNext, Undo: strict(t.publishFormer)},
		{Name: "start", Run: t.startDomain, Undo: t.destroyDomain, State: seedbed.InstanceRunning,
			Guards: "not undone, because the domain could not be switched off: it runs from its new disks"},
		{Name: "ready", Run: t.awaitGuest},
		{Name: "delete", Run: t.removeFormer, Final: true},
	}
}

func (t *task) rebuild(ctx context.Context) (seedbed.Rebuild, error) {
	r, err := t.store.Rebuilding(ctx, t.Ref.ID)
	return r, engine.FromStore(err)
}

// exchange replaces the instance by one side of the rebuild, and returns it.
func (t *task) exchange(ctx context.Context, to seedbed.RebuildSide) (seedbed.Instance, error) {
	err := t.Write(ctx, func(ctx context.Context) error { return t.store.Exchange(ctx, t.Ref, to) })
	if err != nil {
		return seedbed.Instance{}, fmt.Errorf("exchange the instance's disks: %w", err)
	}
	return t.Instance(ctx)
}

// switchOffProbed makes sure that the domain is off, and that no other host answers for its addresses then.
func (t *task) switchOffProbed(ctx context.Context) error {
	if err := t.switchOff(ctx); err != nil {
		return err
	}
	return t.refuseUsed(ctx)
}

// makeNext makes the new volumes beside the existing ones.
func (t *task) makeNext(ctx context.Context) error {
	r, err := t.rebuild(ctx)
	if err != nil {
		return err
	}
	return t.cloneVolumes(ctx, r.Next)
}

func (t *task) dropNext(ctx context.Context) error {
	r, err := t.rebuild(ctx)
	if err != nil {
		return err
	}
	return t.dropVolumes(ctx, r.Next)
}

// defineNext redefines the domain with the new volumes. It leaves a domain that this job has
// already defined unchanged.
func (t *task) defineNext(ctx context.Context) error {
	inst, err := t.exchange(ctx, seedbed.RebuildNext)
	if err != nil {
		return err
	}
	if defined, err := t.definedHere(ctx); err != nil || defined {
		return err
	}
	disks, err := t.disks(ctx, inst, nil)
	if err != nil {
		return err
	}
	return t.redefine(ctx, inst, disks)
}

// definedHere reports whether this job has defined the domain.
func (t *task) definedHere(ctx context.Context) (bool, error) {
	info, exists, err := t.domainNow(ctx)
	return exists && info.Job == t.Ref.ID, err
}

func (t *task) redefine(ctx context.Context, inst seedbed.Instance, disks []seedbed.Disk) error {
	if err := t.undefineDomain(ctx); err != nil {
		return err
	}
	return t.defineAsMade(ctx, inst, disks)
}

// defineFormer restores the former definition of the domain, unless it is unchanged.
func (t *task) defineFormer(ctx context.Context) error {
	inst, err := t.exchange(ctx, seedbed.RebuildBefore)
	if err != nil {
		return err
	}
	info, err := effects.DomainState.Ask(ctx, t.Worker(), effects.DomainRef{ID: inst.ID})
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
	case err != nil:
		return fmt.Errorf("state of domain %s: %w", inst.Name, err)
	case info.Job != t.Ref.ID:
		return nil
	}
	disks, err := t.formerDisks(ctx, inst)
	if err != nil {
		return err
	}
	return t.redefine(ctx, inst, disks)
}

// formerDisks returns how the instance's former volumes are reached. It does not replace a missing
// one: an empty disk would be mistaken for it.
func (t *task) formerDisks(ctx context.Context, inst seedbed.Instance) (disks []seedbed.Disk, err error) {
	for _, v := range inst.Volumes {
		var info seedbed.VolumeInfo
		if v.Image == "" { // blank or flattened: it depends on nothing, and is not changed
			info, err = t.flatten(ctx, v, inst.ID, nil)
		} else {
			err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
				info, err = effects.CloneVolume.Do(ctx, t.Worker(), call, volumeOf(inst, v))
				return err
			})
		}
		if err == nil && info.Job == t.Ref.ID {
			err = seedbed.Errorf(seedbed.ErrNotFound, "it was removed by someone else")
			if bad := t.dropVolumes(ctx, seedbed.Instance{ID: inst.ID, Volumes: []seedbed.Volume{v}}); bad != nil {
				return nil, bad
			}
		}
		if err != nil {
			return nil, fmt.Errorf("former volume %s of pool %s: %w", v.Name, v.Pool, err)
		}
		disks = append(disks, info.Disk)
	}
	return disks, nil
}

// publishNext makes the guest plane serve the new documents. What the former guest has fetched and
// reported until then does not make the new one ready.
func (t *task) publishNext(ctx context.Context) error {
	if err := t.publish(ctx); err != nil {
		return err
	}
	_, err := t.exchange(ctx, seedbed.RebuildNext)
	return err
}

// publishFormer makes the guest plane serve the former documents again. It does not wait for a
// guest plane that is down: it has served the former guest before.
func (t *task) publishFormer(ctx context.Context) error {
	inst, err := t.exchange(ctx, seedbed.RebuildBefore)
	if err != nil {
		return err
	}
	revision, err := t.publishInstance(ctx, inst)
	if err != nil {
		return err
	}
	return t.appliedSoon(ctx, inst.Node, revision, t.Intervals().Retract, "it will once it is back")
}

// removeFormer removes the instance's former volumes.
func (t *task) removeFormer(ctx context.Context) error {
	r, err := t.rebuild(ctx)
	if err != nil {
		return err
	}
	if r.Before == nil {
		return errors.New("the former disks are not known, so none is removed")
	}
	t.Result.Flattened = r.Next.System.DiskCopy && !rebuildBy(t.Job).Scripted
	return t.discardVolumes(ctx, *r.Before)
}

// appliedSoon waits for the revision, for at most most. After that it only logs an event that says
// what happens instead.
func (t *task) appliedSoon(ctx context.Context, node string, revision int64, most time.Duration, instead string) error {
	done := t.Yield()
	defer done()
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := t.applied(short, node, revision)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		t.Event("warn", t.Progress(), "%s within %s: %s", err, most.Round(time.Millisecond), instead)
		return nil
	}
	return err
}
