package main

import (
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/store"
)

// fences fences nodes: their agents say that they are on.
type fences struct{ db *store.DB }

func (fences) Seal(secrets map[string]string) ([]byte, error) { return json.Marshal(secrets) }

func (f fences) Status(_ context.Context, n seedbed.Node) (bool, string, error) {
	return true, "hv1", nil
}

func (f fences) Failover(ctx context.Context, node string, confirmed bool) (seedbed.Receipt, error) {
	return f.db.Accept(ctx, seedbed.FailoverOf(node, seedbed.FailoverSpec{Confirmed: confirmed}))
}
