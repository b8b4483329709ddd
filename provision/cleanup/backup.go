package cleanup

import (
	"context"
	"fmt"
	"time"

	"seedbed"
)

// Targets are what the database says of backups.
type Targets interface {
	BackupTargets(ctx context.Context) ([]seedbed.BackupTarget, error)
	// BackupOwners returns whose the backups of instances are, as far as they are known to this installation.
	BackupOwners(ctx context.Context, ids []seedbed.InstanceID) (map[seedbed.InstanceID]seedbed.BackupOwner, error)
}

// Backups works on the backups in targets.
type Backups interface {
	ListBackups(ctx context.Context, t seedbed.BackupTarget) (seedbed.BackupList, error)
	// RemoveBackups accepts a job that removes backups.
	RemoveBackups(ctx context.Context, project string, work seedbed.BackupWork, o seedbed.JobOptions) (seedbed.Receipt, error)
}

// pruneEvery is how often a target is looked at, which lists all that is in it.
const pruneEvery = time.Hour

// pruneMost bounds the backups that one job removes. The rest is removed an hour later.
const pruneMost = 500

// prunings lists the backups that the retention of their targets does not keep, and says which targets could not be listed. Only backups of
// instances of this installation are removed: others may be in the same target.
func (c *Cleaner) prunings(ctx context.Context, now time.Time, dry bool) (todo []chore, skipped []string, err error) {
	if c.cfg.Backups == nil {
		return nil, nil, nil
	}
	targets, err := c.store.BackupTargets(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list backup targets: %w", err)
	}
	for _, t := range targets {
		if t.Keep == (seedbed.Retention{}) || !dry && now.Sub(c.pruned[t.Name]) < pruneEvery {
			continue
		}
		if !dry {
			c.pruned[t.Name] = now
		}
		asked, cancel := context.WithTimeout(ctx, inventoryTimeout)
		list, err := c.cfg.Backups.ListBackups(asked, t)
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			skipped = append(skipped, fmt.Sprintf("the backups in target %s cannot be listed, so none is removed: %s", t.Name, err))
			continue
		}
		due, err := c.superfluous(ctx, t, list.Backups, now)
		if err != nil {
			return nil, nil, err
		}
		due = due[:min(len(due), pruneMost)]
		for i, b := range due {
			todo = append(todo, chore{
				Item{Task: "backups", Action: "remove", Subject: string(b.Backup),
					Detail: fmt.Sprintf("of instance %s in target %s, which keeps %s", seedbed.Named(b.Project, b.Name), t.Name, t.Keep)},
				func(ctx context.Context) (bool, error) {
					if i > 0 {
						return true, nil // the job of the first item removes them all
					}
					return c.removeBackups(ctx, t, due)
				},
			})
		}
	}
	return todo, skipped, nil
}

// superfluous returns the backups of instances of this installation that the retention of their target does not keep, and those of
// instances that were removed long ago.
func (c *Cleaner) superfluous(
	ctx context.Context, t seedbed.BackupTarget, all []seedbed.BackupHead, now time.Time,
) (due []seedbed.BackupHead, err error) {
	of := map[seedbed.InstanceID][]seedbed.BackupHead{}
	var ids []seedbed.InstanceID
	for _, b := range all {
		if of[b.Instance] == nil {
			ids = append(ids, b.Instance)
		}
		of[b.Instance] = append(of[b.Instance], b)
	}
	ours, err := c.store.BackupOwners(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read whose the backups are: %w", err)
	}
	for _, id := range ids {
		owner, known := ours[id]
		if !known {
			continue
		}
		var made []time.Time
		last := owner.Removed // or the newest backup, which was made before that, if the clocks were right
		for _, b := range of[id] {
			made = append(made, b.Time)
			if b.Time.After(last) {
				last = b.Time
			}
		}
		if !owner.Removed.IsZero() && now.Sub(last) > c.cfg.RemovedBackups {
			due = append(due, of[id]...)
			continue
		}
		for i, kept := range t.Keep.Kept(made) {
			if !kept {
				due = append(due, of[id][i])
			}
		}
	}
	return due, nil
}

func (c *Cleaner) removeBackups(ctx context.Context, t seedbed.BackupTarget, due []seedbed.BackupHead) (bool, error) {
	work := seedbed.BackupWork{Target: t.Name}
	for _, b := range due {
		work.Backups = append(work.Backups, b.BackupKey)
	}
	by := onBehalf(ctx)
	by.Project, by.Installation, by.Request = seedbed.DefaultProject, true, "retention of backup target "+t.Name
	_, err := c.cfg.Backups.RemoveBackups(seedbed.WithChange(ctx, &by), seedbed.DefaultProject, work, seedbed.JobOptions{})
	if err != nil && ctx.Err() == nil && seedbed.KindName(err) != "internal" {
		c.cfg.Log.Info("backups wait for a later cleanup", "target", t.Name, "err", err)
		return false, nil
	}
	return err == nil, err
}
