package client

import (
	"context"
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
	var page wire.EventPage
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	err := c.do(ctx, call{
		method: http.MethodGet, path: at("/jobs", id) + "/events", query: q,
		answer: &page, timeout: wait + callTimeout,
	})
	return page, err
}

// JobOutput returns the lines with a number above after, of one stage or, if stage is empty, of
// all. If there are none yet, the server waits for them for up to wait.
func (c *Client) JobOutput(ctx context.Context, id, stage string, after int64, wait time.Duration) (wire.OutputPage, error) {
	var page wire.OutputPage
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if stage != "" {
		q.Set("stage", stage)
	}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	err := c.do(ctx, call{
		method: http.MethodGet, path: at("/jobs", id) + "/output", query: q,
		answer: &page, timeout: wait + callTimeout,
	})
	return page, err
}

// WithJob returns a client whose calls start their jobs with the options o.
func (c *Client) WithJob(o seedbed.JobOptions) *Client {
	with := *c
	with.job = o
	return &with
}

// jobOptions adds the options of the job to a query.
func (c *Client) jobOptions(q url.Values) url.Values {
	o := c.job
	if o == (seedbed.JobOptions{}) {
		return q
	}
	if q == nil {
		q = url.Values{}
	}
	for name, value := range map[string]string{"on_failure": o.OnFailure.String(), "priority": o.Priority.String(), "after": string(o.After)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}
