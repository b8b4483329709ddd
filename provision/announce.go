package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
)

// stopDomain switches the domain off once the guest was told (instance-action).
func (t *task) stopDomain(ctx context.Context) error {
	if err := t.announce(ctx, seedbed.ActionShutdown); err != nil {
		return err
	}
	err := t.destroyDomain(ctx)
	if err != nil && ctx.Err() == nil {
		// It runs on. Where it is to be removed, its state says so all the same.
		_, back := t.engine.store.Refresh(ctx, t.node(), t.job.Instance, t.engine.cfg.Renderer.Of)
		return errors.Join(err, fromStore(back))
	}
	return err
}

// restartDomain starts a domain that was off, whose guest is no longer about to end.
func (t *task) restartDomain(ctx context.Context) error {
	if err := t.announce(ctx, ""); err != nil {
		return err
	}
	return t.startDomain(ctx)
}

// announce has the guest plane serve the instance as it is now and, unless that
// is empty, with the action. A guest plane that is down does not hold it up.
func (t *task) announce(ctx context.Context, action string) error {
	renderer := t.engine.cfg.Renderer
	revision, err := t.engine.store.Refresh(ctx, t.node(), t.job.Instance, func(i seedbed.Instance, old seedbed.Guest) seedbed.Guest {
		g := renderer.Of(i, old)
		if action != "" {
			g.Action = action
		}
		return g
	})
	if err != nil {
		return fmt.Errorf("announce: %w", fromStore(err))
	}
	if revision == 0 {
		return nil // it was not served, or is no more
	}
	short, cancel := context.WithTimeout(ctx, t.engine.intervals.announce)
	defer cancel()
	err = t.applied(short, t.node(), revision)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		t.event("warn", 0, "%s within %s: the guest is not told", err, t.engine.intervals.announce.Round(time.Millisecond))
		return nil
	}
	return err
}
