package client

import (
	"context"
	"net/http"

	"seedbed"
	"seedbed/api/wire"
)

func (c *Client) removal(ctx context.Context, path string) (seedbed.Receipt, error) {
	var r seedbed.Receipt
	err := c.do(ctx, call{method: http.MethodDelete, path: path, answer: &r})
	return r, err
}

// RemoveImage starts a job that removes an image. It returns seedbed.ErrInUse, naming the users,
// while profiles or volumes need the image.
func (c *Client) RemoveImage(ctx context.Context, name string) (seedbed.Receipt, error) {
	return c.removal(ctx, at("/images", name))
}

// Flatten starts a job that makes an instance's volumes independent of their image.
func (c *Client) Flatten(ctx context.Context, instance string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/flatten", nil)
}

// Snapshots lists the snapshots of an instance, oldest first.
func (c *Client) Snapshots(ctx context.Context, instance string) ([]wire.Snapshot, error) {
	return get[[]wire.Snapshot](ctx, c, at("/instances", instance)+"/snapshots", nil)
}

// TakeSnapshot starts a job that takes a snapshot of an instance's volumes.
func (c *Client) TakeSnapshot(ctx context.Context, instance, name string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/snapshots", wire.SnapshotRequest{Name: name})
}

// RemoveSnapshot starts a job that removes a snapshot.
func (c *Client) RemoveSnapshot(ctx context.Context, instance, name string) (seedbed.Receipt, error) {
	return c.removal(ctx, at(at("/instances", instance)+"/snapshots", name))
}
