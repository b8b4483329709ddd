package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"seedbed"
)

// JobStatus is a job and its journal.
type JobStatus struct {
	Job    seedbed.Job     `json:"job"`
	Stages []seedbed.Stage `json:"stages"`
}

// EventPage is a piece of a job's history, and the job as it is after it.
type EventPage struct {
	Events []seedbed.Event `json:"events"`
	Job    seedbed.Job     `json:"job"`
}

// Jobs lists the last jobs, newest first; a max of 0 is the server's default.
func (c *Client) Jobs(ctx context.Context, max int) ([]seedbed.Job, error) {
	return get[[]seedbed.Job](ctx, c, "/jobs", limit(max))
}

// Job is one job by ID or by the first eight or more characters of it.
func (c *Client) Job(ctx context.Context, id string) (JobStatus, error) {
	return get[JobStatus](ctx, c, at("/jobs", id), nil)
}

// CancelJob asks for a create or import job to be undone.
func (c *Client) CancelJob(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodPost, path: at("/jobs", id) + "/cancel"})
}

// JobEvents gives events with a sequence number above after. With none to give
// yet, the server holds the answer for up to wait, at most 20 s.
func (c *Client) JobEvents(ctx context.Context, id string, after int64, wait time.Duration) (EventPage, error) {
	var page EventPage
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

const (
	pollWait = 20 * time.Second
	// patience is how long WaitJob bears an API that does not answer: seedbedd may be restarting.
	patience = time.Minute
)

// WaitJob follows a job to its end and gives it as it ended; whether it
// succeeded is for the caller to see. seen, unless nil, gets every event from
// the first, in order, with the job as it was; an Event with Seq 0 says only
// that the job was looked at. An API that is away for less than a minute is
// waited for.
func (c *Client) WaitJob(ctx context.Context, id string, seen func(seedbed.Event, seedbed.Job)) (seedbed.Job, error) {
	var after int64
	wait := time.Duration(0) // the first look tells where the job is
	answered := time.Now()
	for {
		page, err := c.JobEvents(ctx, id, after, wait)
		switch {
		case errors.Is(err, seedbed.ErrUnavailable) && time.Since(answered) < patience:
			if err := pause(ctx, time.Second); err != nil {
				return page.Job, err
			}
			continue
		case err != nil:
			return page.Job, err
		}
		answered = time.Now()
		for _, e := range page.Events {
			after = max(after, e.Seq)
			if seen != nil {
				seen(e, page.Job)
			}
		}
		if len(page.Events) == 0 {
			if page.Job.State.Terminal() {
				return page.Job, nil
			}
			if seen != nil {
				seen(seedbed.Event{}, page.Job)
			}
		}
		wait = pollWait
		if page.Job.State.Terminal() {
			wait = 0 // only the rest of the history is left
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
