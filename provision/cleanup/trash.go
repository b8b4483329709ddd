package cleanup

import (
	"context"
	"fmt"
	"time"

	"seedbed"
)

// TrashBin is what was removed and is still there.
type TrashBin interface {
	// Trash is everything that is in a node's trash or came back from it, or an error:
	// never a part of it. What is in a pool that nodes share names no node.
	Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error)
	// PurgeVolume removes an item for good; seedbed.ErrInUse when its time is not over, unless early.
	PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error
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
