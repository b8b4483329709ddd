package cleanup

import (
	"context"
	"fmt"
	"time"

	"seedbed"
)

// TrashBin holds removed volumes that can still be restored.
type TrashBin interface {
	// Trash returns everything that is in a node's trash or was restored from it, or an error:
	// never a part of it. An item of a pool that nodes share names no node.
	Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error)
	// PurgeVolume removes an item for good; seedbed.ErrInUse if its time is not over, unless early.
	PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error
}

// overdue lists the items in a node's trash whose time is over, or says why the list is not
// reliable.
func (c *Cleaner) overdue(ctx context.Context, node string, now time.Time) (due []seedbed.TrashItem, refused string) {
	if c.cfg.Trash == nil {
		return nil, ""
	}
	ask, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	all, err := c.cfg.Trash.Trash(ask, node)
	if err != nil {
		return nil, fmt.Sprintf("the trash of node %s cannot be listed, so nothing is removed: %s", node, err)
	}
	for _, item := range all {
		if item.State == seedbed.Trashed && !now.Before(item.Expires) {
			due = append(due, item)
		}
	}
	return due, ""
}

// purgeTime is how long one item may take, because purging a large volume in Ceph is slow. A run
// that has lasted that long purges no further item.
const purgeTime = 10 * time.Minute

// purge returns the chore for one item of the trash. An item that was taken out in the meantime,
// whose volume is in use, or that must wait until others are purged, is left for another run.
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
