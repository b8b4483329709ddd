package cleanup

import (
	"context"
	"errors"
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
		req := seedbed.Request{Action: action, Project: inst.Project, Name: inst.Name}
		todo = append(todo, chore{
			Item{Task: "expiry", Action: action, Subject: inst.FullName().String(),
				Detail: "expired " + inst.Expiry.Time.Format(time.RFC3339) + kept},
			func(ctx context.Context) (bool, error) {
				err := c.cfg.Submit(ctx, req)
				if errors.Is(err, seedbed.ErrConflict) || errors.Is(err, seedbed.ErrNotFound) {
					c.cfg.Log.Info("an expired instance waits for the next cleanup", "instance", inst.FullName().String(), "err", err)
					return false, nil
				}
				return err == nil, err
			},
		})
	}
	return todo, nil
}
