package client

import (
	"context"

	"seedbed"
)

// PlanImport returns what an import of a disk image or an OVA would make.
func (c *Client) PlanImport(ctx context.Context, r seedbed.ImportRequest) (seedbed.ImportPlan, error) {
	return post[seedbed.ImportPlan](ctx, c, "/plan/import", r)
}
