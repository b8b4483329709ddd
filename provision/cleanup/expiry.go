package cleanup

import (
	"context"
	"fmt"
	"time"

	"seedbed"
)

// expiries lists what is due on instances that have expired. A protected one is stopped in place of being removed. One that is
// being made, or that another job works on, waits for the next run.
func (c *Cleaner) expiries(ctx context.Context, now time.Time) ([]chore, error) {
	expired, err := c.store.Expired(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("list expired instances: %w", err)
	}
	var todo []chore
	for _, inst := range expired {
		action, kept := inst.Expiry.Action, ""
		if action == seedbed.ExpiryRemove && inst.Protected {
			action, kept = seedbed.ExpiryStop, "; it is protected, so it is not removed"
		}
		switch {
		case action == seedbed.ExpiryStop && inst.State != seedbed.InstanceRunning:
			continue
		case inst.State == seedbed.InstanceProvisioning || inst.State == seedbed.InstanceRemoving:
			continue
		}
		why := "expired " + inst.Expiry.Time.Format(time.RFC3339)
		req := seedbed.Request{Action: action, Project: inst.Project, Name: inst.Name}
		todo = append(todo, chore{
			Item{Task: "expiry", Action: action, Subject: inst.FullName().String(), Detail: why + kept},
			func(ctx context.Context) (bool, error) {
				err := c.cfg.Submit(seedbed.WithChange(ctx, onceExpired(ctx, inst, why)), req)
				if err != nil && ctx.Err() == nil {
					c.cfg.Log.Info("an expired instance waits for the next cleanup", "instance", inst.FullName().String(), "err", err)
					return false, nil
				}
				return err == nil, err
			},
		})
	}
	return todo, nil
}

// onceExpired returns on whose behalf an expired instance is stopped or removed, as the audit log notes it: of whoever asked for
// the cleanup, or of the cleanup itself. An instance that has changed since it was read, as one that was extended, is left alone.
func onceExpired(ctx context.Context, inst seedbed.Instance, why string) *seedbed.Change {
	by := onBehalf(ctx)
	by.Project, by.Request = inst.Project, why
	by.Match = func(object any) error {
		if now, ok := object.(seedbed.Instance); !ok || now.Revision != inst.Revision {
			return seedbed.Errorf(seedbed.ErrConflict, "instance %s has changed since it was found to have expired", inst.FullName())
		}
		return nil
	}
	return &by
}
