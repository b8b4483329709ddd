package record

import (
	"context"
	"log/slog"

	"seedbed"
)

// Store keeps the records that guest planes serve.
type Store interface {
	// Served returns the instances with a record, by node.
	Served(ctx context.Context) (map[string][]seedbed.InstanceID, error)
	// Refresh publishes the record of an instance as render makes it. It returns the record's
	// revision, or 0 if node does not serve the instance.
	Refresh(
		ctx context.Context, node string, id seedbed.InstanceID, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest,
	) (int64, error)
}

// Refresh publishes the record of each instance again, because another release or configuration may
// have published it. It logs what fails, and returns once all are published or ctx has ended.
func (r Renderer) Refresh(ctx context.Context, store Store, log *slog.Logger) {
	all, err := store.Served(ctx)
	if err != nil {
		log.Warn("records of instances are not refreshed", "err", err)
		return
	}
	for node, ids := range all {
		for _, id := range ids {
			_, err := store.Refresh(ctx, node, id, r.Of)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				log.Warn("record of an instance is not refreshed", "instance", id, "node", node, "err", err)
			}
		}
	}
}
