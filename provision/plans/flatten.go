package plans

import (
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// flattenPlan makes an instance's volumes independent of their image. The store records that last,
// so that the image counts as used as long as anything refers to it.
func (t *task) flattenPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "flatten", Run: t.flattenVolumes, Undo: t.stopFlatten},
		{Name: "redefine", Run: t.redefineDomain, Undo: t.defineFlat},
	}}
}

// flattenVolumes flattens one volume after the other. It continues what an earlier attempt has
// begun.
func (t *task) flattenVolumes(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if err := t.leavesOut(ctx, "flattened"); err != nil {
		return err
	}
	return t.flattenAll(ctx, inst, "flattening", nil)
}

// flattenAll flattens the instance's volumes. doing names the work in progress events. each, unless
// nil, is called for every volume.
func (t *task) flattenAll(ctx context.Context, inst seedbed.Instance, doing string, each func(seedbed.Volume, seedbed.VolumeInfo)) error {
	var total, before seedbed.Bytes
	for _, v := range inst.Volumes {
		total += v.Size
	}
	report := t.percent(doing)
	for _, v := range inst.Volumes {
		t.Event("info", t.Progress(), "%s volume %s of pool %s", doing, v.Name, v.Pool)
		made, err := t.flatten(ctx, v, inst.ID, func(p seedbed.Progress) {
			report(seedbed.Progress{Done: before + p.Done, Total: total})
		})
		if err != nil {
			return err
		}
		before += v.Size
		t.Event("info", seedbed.Progress{Done: before, Total: total}.Percent(), "volume %s is independent", v.Name)
		if each != nil {
			each(v, made)
		}
	}
	return nil
}

func (t *task) flatten(ctx context.Context, v seedbed.Volume, id seedbed.InstanceID,
	progress func(seedbed.Progress)) (info seedbed.VolumeInfo, err error) {
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		info, err = effects.FlattenVolume.Do(ctx, t.Worker(), call, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: id},
			effects.OnProgress(progress))
		return err
	})
	if err != nil {
		err = fmt.Errorf("flatten volume %s of pool %s: %w", v.Name, v.Pool, err)
	}
	return info, err
}

// stopFlatten stops a flatten in progress. A volume that is already flat stays flat: its content is
// the same.
func (t *task) stopFlatten(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	return t.stopFlattening(ctx, inst)
}

func (t *task) stopFlattening(ctx context.Context, inst seedbed.Instance) error {
	var failed []error
	for _, v := range inst.Volumes {
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.StopFlatten.Do(ctx, t.Worker(), call, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("stop the flatten of volume %s of pool %s: %w", v.Name, v.Pool, err))
		}
	}
	return errors.Join(failed...)
}

// flatDisks returns the instance's disks, which are flat by now. Flattening them again changes
// nothing, and creates no volume.
func (t *task) flatDisks(ctx context.Context, inst seedbed.Instance) (disks []seedbed.Disk, named bool, err error) {
	for _, v := range inst.Volumes {
		info, err := t.flatten(ctx, v, inst.ID, nil)
		if err != nil {
			return nil, false, err
		}
		disks = append(disks, info.Disk)
		named = named || info.Disk.Type == "file"
	}
	return disks, named, nil
}

// redefineDomain redefines the domain if its definition names the image's file.
func (t *task) redefineDomain(ctx context.Context) error {
	t.Result.Flattened = true // takes effect when the stage is done
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	disks, named, err := t.flatDisks(ctx, inst)
	if err != nil || !named {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.UndefineKept.Do(ctx, t.Worker(), call, effects.DomainRef{ID: inst.ID})
	})
	if errors.Is(err, seedbed.ErrInUse) {
		return seedbed.Errorf(seedbed.ErrInUse,
			"domain %s was started in the meantime, and its definition still names the image: stop it and flatten it again", inst.Name)
	}
	if err != nil {
		return fmt.Errorf("undefine domain %s: %w", inst.Name, err)
	}
	return t.defineAsMade(ctx, inst, disks)
}

// defineFlat restores a domain that redefineDomain may have left undefined.
func (t *task) defineFlat(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	disks, named, err := t.flatDisks(ctx, inst)
	if err != nil || !named {
		return err
	}
	return t.defineAsMade(ctx, inst, disks)
}
