package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"seedbed"
)

// patience is how long a follower waits for an API that does not answer, such as while seedbedd
// restarts.
const patience = time.Minute

// WaitJob follows a job to its end and returns the finished job. The caller has to check whether it
// succeeded. seen, unless nil, gets every event from the first, once and in order, with the job's
// last known state. An Event with Seq 0 means only that the job has changed. A stream that breaks
// is continued where it broke, and an API that is away for less than a minute is waited for.
func (c *Client) WaitJob(ctx context.Context, id string, seen func(seedbed.Event, seedbed.Job)) (seedbed.Job, error) {
	job, last, ended := seedbed.Job{}, int64(0), false
	tell := func(e seedbed.Event) {
		if seen != nil {
			seen(e, job)
		}
	}
	err := c.again(ctx, at("/jobs", id)+"/events", func() int64 { return last }, func(m message) error {
		if m.kind == "event" {
			var e seedbed.Event
			if err := told(m, &e); err != nil {
				return err
			}
			if e.Seq > last {
				last = e.Seq
				tell(e)
			}
			return nil
		}
		if err := told(m, &job); err != nil {
			return err
		}
		tell(seedbed.Event{})
		if ended = m.kind == "end"; ended {
			return errStop
		}
		return nil
	})
	if err == nil && !ended { // it had already ended, and every event has been seen
		s, err := c.Job(ctx, id)
		return s.Job, err
	}
	return job, err
}

// FollowEvents passes the events of all jobs to seen, until ctx ends or seen returns an error. It
// starts after the given place. 0 is before the first event, and a negative place means only new
// events. It waits for an API that is away for less than a minute, and then misses nothing.
func (c *Client) FollowEvents(ctx context.Context, after int64, seen func(seedbed.NumberedEvent) error) error {
	path := "/events"
	if after >= 0 {
		path += "?after=" + strconv.FormatInt(after, 10)
	}
	return c.again(ctx, path, func() int64 { return after }, func(m message) error {
		var e seedbed.NumberedEvent
		if err := told(m, &e); err != nil {
			return err
		}
		after = e.Place
		return seen(e)
	})
}

// told decodes the data of an event.
func told(m message, v any) error {
	if err := json.Unmarshal([]byte(m.data), v); err != nil {
		return fmt.Errorf("an event of kind %q is not Seedbed's: %w", m.kind, err)
	}
	return nil
}
