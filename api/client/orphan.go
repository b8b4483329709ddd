package client

import (
	"context"

	"seedbed"
)

// Orphans lists the orphans of jobs that were undone.
func (c *Client) Orphans(ctx context.Context) ([]seedbed.Orphan, error) {
	return get[[]seedbed.Orphan](ctx, c, "/orphans", nil)
}

// UndoJob undoes again a job that has left something behind.
func (c *Client) UndoJob(ctx context.Context, id string) (seedbed.Job, error) {
	return post[seedbed.Job](ctx, c, at("/jobs", id)+"/undo", nil)
}
