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
	return t.discardVolumes(ctx, inst)
}

func (t *task) discardVolumes(ctx context.Context, inst seedbed.Instance) error {
	var failed []error
	for i, v := range inst.Volumes {
		var kept *seedbed.TrashItem
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			kept, err = effects.TrashVolume.Do(ctx, t.Worker(), call, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
			return err
		})
		percent := (i + 1) * 100 / len(inst.Volumes)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("remove volume %s of pool %s: %w", v.Name, v.Pool, err))
		case kept == nil:
			t.Event("info", percent, "volume %s is removed", v.Name)
		default:
			t.Event("info", percent, "volume %s is in the trash of pool %s until %s: seedbed trash restore %s gets it back",
				v.Name, v.Pool, kept.Expires.UTC().Format(time.RFC3339), kept.ID)
		}
	}
	return errors.Join(failed...)
}
