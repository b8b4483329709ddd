package plans

import (
	"context"

	"seedbed"
)

// startUnlessHeld starts the domain of a new instance, unless the instance is held and only to be
// defined.
func (t *task) startUnlessHeld(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	if !inst.Held {
		return t.startDomain(ctx)
	}
	t.Result.State = seedbed.InstanceStopped
	t.Event("info", 100, "the domain stays off, as was asked for: seedbed vm start %s starts it", inst.Name)
	return nil
}
