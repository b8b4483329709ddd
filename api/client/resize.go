package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// ResizeInstance starts a job that makes a disk of an instance larger, or gives it
// other vcpus and memory; what is zero stays as it is.
func (c *Client) ResizeInstance(ctx context.Context, name string, r seedbed.ResizeRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", name)+"/resize", r)
}

// PlanResize says what that would make of it.
func (c *Client) PlanResize(ctx context.Context, name string, r seedbed.ResizeRequest) (seedbed.Plan, error) {
	return post[seedbed.Plan](ctx, c, at("/instances", name)+"/resize", wire.ResizeRequest{ResizeRequest: r, DryRun: true})
}
