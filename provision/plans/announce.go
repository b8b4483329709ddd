package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/engine"
)

// stopDomain switches the domain off after the guest has been told (instance-action).
func (t *task) stopDomain(ctx context.Context) error {
	if err := t.announce(ctx, seedbed.ActionShutdown); err != nil {
		return err
	}
	err := t.destroyDomain(ctx)
	if err != nil && ctx.Err() == nil {
		// The domain still runs, so the record is rendered again without the action. If the
		// instance is being removed, its state still announces the end.
		_, back := t.store.Refresh(ctx, t.Node(), t.Job.Instance, t.renderer.Of)
		return errors.Join(err, engine.FromStore(back))
	}
	return err
}

// restartDomain starts a domain that was off, and withdraws the announcement of its end.
func (t *task) restartDomain(ctx context.Context) error {
	if err := t.announce(ctx, ""); err != nil {
		return err
	}
	return t.startDomain(ctx)
}

// refresh renders the record of an instance again, from the instance as it is now, and returns its revision: 0 if node does not serve it.
func (t *task) refresh(ctx context.Context, node string, id seedbed.InstanceID) (int64, error) {
	revision, err := t.store.Refresh(ctx, node, id, t.renderer.Of)
	if err != nil {
		return 0, fmt.Errorf("publish: %w", engine.FromStore(err))
	}
	return revision, nil
}

// announce makes the guest plane serve the instance as it is now, with the given action unless that
// is empty. It does not wait for a guest plane that is down.
func (t *task) announce(ctx context.Context, action string) error {
	renderer := t.renderer
	revision, err := t.store.Refresh(ctx, t.Node(), t.Job.Instance, func(i seedbed.Instance, old seedbed.Guest) seedbed.Guest {
		g := renderer.Of(i, old)
		if action != "" {
			g.Action = action
		}
		return g
	})
	if err != nil {
		return fmt.Errorf("announce: %w", engine.FromStore(err))
	}
	if revision == 0 {
		return nil // it was not served, or is no longer
	}
	short, cancel := context.WithTimeout(ctx, t.Intervals().Announce)
	defer cancel()
	err = t.applied(short, t.Node(), revision)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		t.Event("warn", 0, "%s within %s: the guest is not notified", err, t.Intervals().Announce.Round(time.Millisecond))
		return nil
	}
	return err
}
