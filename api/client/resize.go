package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// ResizeInstance starts a job that enlarges a disk of an instance, or changes its vCPUs and memory.
// Zero fields change nothing.
func (c *Client) ResizeInstance(ctx context.Context, name string, r seedbed.ResizeRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/resize", r)
}

// PlanResize returns what a resize would change.
func (c *Client) PlanResize(ctx context.Context, name string, r seedbed.ResizeRequest) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/resize", wire.ResizeRequest{ResizeRequest: r, DryRun: true})
}
