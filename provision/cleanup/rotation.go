package cleanup

import (
	"context"
	"fmt"
	"slices"

	"seedbed"
)

// rotateMost bounds the snapshots of an instance that one job removes. The rest is removed by the next run.
const rotateMost = 20

// rotations lists the snapshots that their schedules do not keep. A job removes those of an instance. An instance that another job works on
// waits for the next run.
func (c *Cleaner) rotations(ctx context.Context) (todo []chore, err error) {
	all, err := c.store.Schedules(ctx)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	have, err := c.store.ScheduledSnapshots(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the snapshots of schedules: %w", err)
	}
	for _, of := range all {
		due := outdated(of, have)
		for len(due) > 0 {
			n := slices.IndexFunc(due, func(o seedbed.ScheduledSnapshot) bool { return o.Instance != due[0].Instance })
			if n < 0 {
				n = len(due)
			}
			todo = append(todo, c.rotation(of, due[:min(n, rotateMost)])...)
			due = due[n:]
		}
	}
	return todo, nil
}

// rotation returns the removal of snapshots of one instance.
func (c *Cleaner) rotation(of seedbed.Schedule, due []seedbed.ScheduledSnapshot) (todo []chore) {
	at := due[0].Instance
	req := seedbed.Request{Action: seedbed.DoSnapshotRemove, Project: at.Project, Name: at.Name,
		Params: map[string]any{"snapshot": due[0].Name}, Schedule: of.Name}
	submitted := false
	for i, o := range due {
		if i > 0 {
			req.Also = append(req.Also, o.Name)
		}
		todo = append(todo, chore{
			Item{Task: "snapshots", Action: "remove", Subject: o.Name,
				Detail: fmt.Sprintf("of instance %s, by the snapshot schedule %s, which keeps %s", at, of.Name, of.Keep)},
			func(ctx context.Context) (bool, error) {
				if i > 0 {
					return submitted, nil // the job of the first one removes them all
				}
				by := onBehalf(ctx)
				by.Project, by.Request = req.Project, "retention of the snapshot schedule "+of.Name
				err := c.cfg.Submit(seedbed.WithChange(ctx, &by), req)
				if submitted = err == nil; err != nil && ctx.Err() == nil && seedbed.KindName(err) != "internal" {
					c.cfg.Log.Info("snapshots wait for a later cleanup", "instance", at.String(), "schedule", of.Name, "err", err)
					return false, nil
				}
				return submitted, err
			},
		})
	}
	return todo
}
