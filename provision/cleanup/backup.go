package cleanup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"seedbed"
	"seedbed/internal/sleep"
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
	by := seedbed.Change{Actor: "cleanup", Installation: true, Project: seedbed.DefaultProject,
		Request: "retention of backup target " + t.Name}
	if asked := seedbed.ChangeOf(ctx); asked != nil {
		by.Actor, by.Role, by.From = asked.Actor, asked.Role, asked.From
	}
	_, err := c.cfg.Backups.RemoveBackups(seedbed.WithChange(ctx, &by), seedbed.DefaultProject, work, seedbed.JobOptions{})
	if err != nil && ctx.Err() == nil && seedbed.KindName(err) != "internal" {
		c.cfg.Log.Info("backups wait for a later cleanup", "target", t.Name, "err", err)
		return false, nil
	}
	return err == nil, err
}

// Schedules are the schedules of backups, and the instances that they are of.
type Schedules interface {
	BackupSchedules(ctx context.Context) ([]seedbed.BackupSchedule, error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	Slots
}

// BackupCron has backups be made by their schedules, on the leading member.
type BackupCron struct {
	store  Schedules
	lead   Leadership
	submit func(ctx context.Context, req seedbed.Request) error
	log    *slog.Logger
}

// NewBackupCron makes a BackupCron. submit accepts the job of a request.
func NewBackupCron(
	store Schedules, lead Leadership, submit func(ctx context.Context, req seedbed.Request) error, log *slog.Logger,
) *BackupCron {
	return &BackupCron{store: store, lead: lead, submit: submit, log: log}
}

// backupRole is the role whose leader has backups be made.
const backupRole = "backups"

// Run looks at all schedules every minute until ctx ends, and then returns nil. Of the slots that pass while there is no leader, the last
// one of each schedule is made up for.
func (b *BackupCron) Run(ctx context.Context) error {
	done := time.Now().UTC()
	return b.lead.Lead(ctx, backupRole, func(ctx context.Context) error {
		for {
			sleep.For(ctx, time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			if ctx.Err() != nil {
				return nil
			}
			now := time.Now().UTC()
			if err := b.Pass(ctx, done, now); err != nil {
				if ctx.Err() == nil {
					b.log.Error("scheduled backups", "err", err)
				}
				continue // the slots are looked at again
			}
			done = now
		}
	})
}

// Pass asks for the backups of each schedule that has a slot after done and up to now.
func (b *BackupCron) Pass(ctx context.Context, done, now time.Time) error {
	all, err := b.store.BackupSchedules(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	var instances []seedbed.Instance
	for _, s := range all {
		schedule, err := ParseSchedule(s.Cron)
		if err != nil {
			b.log.Error("a backup schedule", "schedule", s.Name, "err", err)
			continue
		}
		slot := nextSlot(schedule, done, now)
		if slot.IsZero() || slot.After(now) {
			continue
		}
		if instances == nil { // before the slot is taken, which cannot be given back
			if instances, err = b.store.Instances(ctx); err != nil {
				return err
			}
		}
		mine, err := b.store.CronSlot(ctx, fmt.Sprintf("backup %x", sha256.Sum256([]byte(s.Name)))[:40], slot)
		if err != nil {
			return fmt.Errorf("take the slot of %s: %w", s.Name, err)
		}
		if !mine {
			continue
		}
		b.ask(ctx, s, instances)
	}
	return nil
}

// ask asks for a backup of each instance of a schedule. What is refused, as for an instance that another job works on, is only logged.
func (b *BackupCron) ask(ctx context.Context, s seedbed.BackupSchedule, instances []seedbed.Instance) {
	by := seedbed.Change{Actor: "schedule " + s.Name, Project: s.Project, Installation: true, Request: "scheduled backup"}
	asked := 0
	for _, i := range slices.DeleteFunc(slices.Clone(instances), func(i seedbed.Instance) bool { return !s.Takes(i) }) {
		err := b.submit(seedbed.WithChange(ctx, &by), seedbed.Request{Action: seedbed.DoBackup, Project: i.Project, Name: i.Name,
			Params: map[string]any{"target": s.Target}})
		if err != nil {
			b.log.Warn("a scheduled backup was refused", "schedule", s.Name, "instance", i.FullName().String(), "err", err)
			continue
		}
		asked++
	}
	b.log.Info("backups are scheduled", "schedule", s.Name, "jobs", asked)
}

// ParseSchedule parses five fields of cron(5), in UTC, or a descriptor such as "@daily". It returns seedbed.ErrInvalid for anything else.
func ParseSchedule(spec string) (cron.Schedule, error) {
	schedule, err := cron.ParseStandard(spec)
	if err == nil && schedule.Next(time.Now()).IsZero() {
		err = errors.New("it never comes")
	}
	if err != nil {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "schedule %q is not usable (%s): expected five cron fields in UTC, such as */10 * * * *",
			seedbed.Clip(spec), err)
	}
	return schedule, nil
}
