package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// removeVolumes removes the instance's volumes, into the trash of pools that have one. It tries
// every volume, even if some fail.
func (t *task) removeVolumes(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	var removal seedbed.Removal
	if len(t.Job.Spec) > 0 {
		if err := t.input(&removal); err != nil {
			return err
		}
	}
	if removal.KeepDisks {
		t.Event("info", 0, "the %d disks of the instance become volumes of project %s", len(inst.Volumes), inst.Project)
		inst.Volumes = removal.Left
	}
	return errors.Join(t.discardVolumes(ctx, inst), t.partVolumes(ctx, inst))
}

func (t *task) discardVolumes(ctx context.Context, inst seedbed.Instance) error {
	var failed []error
	for i, v := range inst.Volumes {
		failed = append(failed, t.discard(ctx, v, inst.ID, (i+1)*100/len(inst.Volumes)))
	}
	return errors.Join(failed...)
}

// discard removes a volume, into the trash if its pool has one. owner is the ID in its tag.
func (t *task) discard(ctx context.Context, v seedbed.Volume, owner seedbed.InstanceID, percent int) error {
	var kept *seedbed.TrashItem
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		kept, err = effects.TrashVolume.Do(ctx, t.Worker(), call, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: owner})
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("remove volume %s of pool %s: %w", v.Name, v.Pool, err)
	case kept == nil:
		t.Event("info", percent, "volume %s is removed", v.Name)
	default:
		t.Event("info", percent, "volume %s is in the trash of pool %s until %s: seedbed trash restore %s gets it back",
			v.Name, v.Pool, kept.Expires.UTC().Format(time.RFC3339), kept.ID)
	}
	return nil
}
