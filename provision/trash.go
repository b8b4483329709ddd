package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// removeVolumes takes the instance's volumes away: into the trash of pools that
// keep one. It tries each, whatever happens to the others.
func (t *task) removeVolumes(ctx context.Context) error {
	inst, err := t.instance(ctx)
	if err != nil {
		return err
	}
	return t.discardVolumes(ctx, inst)
}

func (t *task) discardVolumes(ctx context.Context, inst seedbed.Instance) error {
	var failed []error
	for i, v := range inst.Volumes {
		var kept *seedbed.TrashItem
		err := t.effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			kept, err = effects.TrashVolume.Do(ctx, t.worker(), call, effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
			return err
		})
		percent := (i + 1) * 100 / len(inst.Volumes)
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("remove volume %s of pool %s: %w", v.Name, v.Pool, err))
		case kept == nil:
			t.event("info", percent, "volume %s is removed", v.Name)
		default:
			t.event("info", percent, "volume %s is in the trash of pool %s until %s: seedbed trash restore %s gets it back",
				v.Name, v.Pool, kept.Expires.UTC().Format(time.RFC3339), kept.ID)
		}
	}
	return errors.Join(failed...)
}

// overdue lists what is in a node's trash and whose time is over, or says why it cannot be relied on.
func (c *Cleaner) overdue(ctx context.Context, node string, now time.Time) (due []seedbed.TrashItem, refused string) {
	if c.cfg.Trash == nil {
		return nil, ""
	}
	ask, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	all, err := c.cfg.Trash.Trash(ask, node)
	if err != nil {
		return nil, fmt.Sprintf("the trash of node %s cannot be listed, so nothing is touched: %s", node, err)
	}
	for _, item := range all {
		if item.State == seedbed.Trashed && !now.Before(item.Expires) {
			due = append(due, item)
		}
	}
	return due, ""
}

// purgeTime is how long one item may take, since large volumes go slowly where
// they are in Ceph, and how long a run goes on to begin with another one.
const purgeTime = 10 * time.Minute

// purge is the chore of one item of the trash. One that was taken out meanwhile,
// whose volume is in use, or that has to wait until the others are gone, is left for another run.
func (c *Cleaner) purge(item seedbed.TrashItem, began time.Time) chore {
	return chore{
		Item{Task: "trash", Action: "purge", Subject: item.Name,
			Detail: fmt.Sprintf("%s of pool %s, removed %s, kept until %s", item.ID, item.Pool,
				item.Removed.UTC().Format(time.RFC3339), item.Expires.UTC().Format(time.RFC3339))},
		func(ctx context.Context) (bool, error) {
			if time.Since(began) > purgeTime {
				return false, nil
			}
			timed, cancel := context.WithTimeout(ctx, purgeTime)
			defer cancel()
			err := c.cfg.Trash.PurgeVolume(timed, item, false)
			if err != nil && ctx.Err() == nil {
				c.cfg.Log.Warn("purge a volume from the trash", "pool", item.Pool, "volume", item.Name, "id", item.ID, "err", err)
				return false, nil
			}
			return err == nil, err
		},
	}
}
