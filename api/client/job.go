package client

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// Jobs lists the last jobs, newest first. A max of 0 is the server's default.
func (c *Client) Jobs(ctx context.Context, max int) ([]seedbed.Job, error) {
	return get[[]seedbed.Job](ctx, c, "/jobs", limit(max))
}

// Job returns a job by its ID or by at least the first eight characters of it.
func (c *Client) Job(ctx context.Context, id string) (wire.JobStatus, error) {
	return get[wire.JobStatus](ctx, c, at("/jobs", id), nil)
}

// CancelJob cancels a create or import job, which is then undone.
func (c *Client) CancelJob(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPost, path: at("/jobs", id) + "/cancel"})
}

// JobEvents returns the events with a number above after. If there are none yet, the server waits
// for them for up to wait, at most 20 s.
func (c *Client) JobEvents(ctx context.Context, id string, after int64, wait time.Duration) (wire.EventPage, error) {
	return held[wire.EventPage](ctx, c, at("/jobs", id)+"/events", "", after, wait)
}

// JobOutput returns the lines with a number above after, of one stage or, if stage is empty, of
// all. If there are none yet, the server waits for them for up to wait.
func (c *Client) JobOutput(ctx context.Context, id, stage string, after int64, wait time.Duration) (wire.OutputPage, error) {
	return held[wire.OutputPage](ctx, c, at("/jobs", id)+"/output", stage, after, wait)
}

// held reads a page that the server may hold back for up to wait.
func held[T any](ctx context.Context, c *Client, path, stage string, after int64, wait time.Duration) (T, error) {
	q := given(map[string]string{"after": strconv.FormatInt(after, 10), "stage": stage})
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	return send[T](ctx, c, call{method: http.MethodGet, path: path, query: q, timeout: wait + callTimeout})
}

// WithJob returns a client whose calls start their jobs with the options o.
func (c *Client) WithJob(o seedbed.JobOptions) *Client {
	with := *c
	with.job = o
	return &with
}

// WithProject returns a client whose calls act in a project.
func (c *Client) WithProject(name string) *Client {
	with := *c
	with.project = name
	return &with
}

// WithForce returns a client whose calls may save user-data and vendor-data that no guest can use.
func (c *Client) WithForce(force bool) *Client {
	with := *c
	with.force = force
	return &with
}

// options adds the options of the client's calls to a query.
func (c *Client) options(q url.Values) url.Values {
	o := c.job
	if o == (seedbed.JobOptions{}) && !c.force {
		return q
	}
	if q == nil {
		q = url.Values{}
	}
	if c.force {
		q.Set("force", "true")
	}
	maps.Copy(q, given(map[string]string{"on_failure": o.OnFailure.String(), "priority": o.Priority.String(), "after": string(o.After)}))
	return q
}

// Orphans lists the orphans of jobs that were undone.
func (c *Client) Orphans(ctx context.Context) ([]seedbed.Orphan, error) {
	return c.ListOrphans(ctx, Selection{})
}

// UndoJob undoes again a job that has left something behind.
func (c *Client) UndoJob(ctx context.Context, id string) (seedbed.Job, error) {
	return post[seedbed.Job](ctx, c, at("/jobs", id)+"/undo", nil)
}
