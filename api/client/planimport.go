package client

import (
	"context"

	"seedbed"
)

// PlanImport says what an import of a disk image, or of an OVA, would make.
func (c *Client) PlanImport(ctx context.Context, r seedbed.ImportRequest) (seedbed.ImportPlan, error) {
	return post[seedbed.ImportPlan](ctx, c, "/plan/import", r)
}
