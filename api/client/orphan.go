package client

import (
	"context"

	"seedbed"
)

// Orphans lists what jobs that were undone have left behind.
func (c *Client) Orphans(ctx context.Context) ([]seedbed.Orphan, error) {
	return get[[]seedbed.Orphan](ctx, c, "/orphans", nil)
}

// UndoJob has a job that has left something behind undone once more.
func (c *Client) UndoJob(ctx context.Context, id string) (seedbed.Job, error) {
	return post[seedbed.Job](ctx, c, at("/jobs", id)+"/undo", nil)
}
