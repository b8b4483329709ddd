package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// outcome is how a call ended.
type outcome struct {
	result json.RawMessage
	err    error
}

// fenced reports whether the call is made for a job.
func fenced(x effects.Exchange) bool { return x.Call.Job != "" }

// pass passes a line that is not the last to its listener.
func pass(to effects.Listener, l effects.Line) {
	switch {
	case l.Progress != nil && to.Progress != nil:
		to.Progress(*l.Progress)
	case l.Event != nil && to.Event != nil:
		to.Event(*l.Event)
	case l.Output != nil && to.Output != nil:
		to.Output(*l.Output)
	}
}

// Do implements effects.Worker. It ends the call when ctx ends.
func (c *Client) Do(ctx context.Context, x effects.Exchange) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.Effect, err)
	}
	if _, ok := ctx.Deadline(); !ok && !x.Endless {
		limit := readTime
		if fenced(x) {
			limit = effectTime
		}
		timed, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = timed
	}
	if x.Output == nil {
		x.Output = seedbed.OutputOf(ctx)
	}
	req, err := request(ctx, x)
	if err != nil {
		return nil, err
	}
	if c.incarnation != nil {
		req.Incarnation = c.incarnation()
	}
	// The exchange outlives ctx for a moment, to learn how the call ended.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan outcome, 1)
	go func() {
		raw, err := c.send(inner, x.Effect, req, func(l effects.Line) { pass(x.Listener, l) })
		done <- outcome{raw, err}
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		o = c.end(ctx, stop, done, x, req)
	}
	if o.err == nil && x.Endless {
		o.err = seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s has stopped sending events", c.at)
	}
	if o.err == nil {
		return o.result, nil // perhaps at the last moment
	}
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", x.Effect, err, o.err)
	}
	return nil, o.err
}

// ended returns the error of a context that has ended, even if its timer fires a moment after the
// worker's answer.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// end ends a call whose context has ended. A worker whose time is over answers by itself; otherwise
// end sends a cancel.
func (c *Client) end(ctx context.Context, stop func(), done <-chan outcome, x effects.Exchange, req effects.Request) outcome {
	wait := time.NewTimer(c.grace)
	defer wait.Stop()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case o := <-done:
			return o
		case <-wait.C:
		}
	}
	if fenced(x) {
		if err := c.cancel(ctx, req.ID, req.Call); err == nil {
			wait.Reset(c.grace)
			select {
			case o := <-done:
				return o
			case <-wait.C:
			}
		}
	}
	stop()
	return <-done
}

func request(ctx context.Context, x effects.Exchange) (effects.Request, error) {
	req := effects.Request{ID: rand.Text(), Call: x.Call}
	if deadline, ok := ctx.Deadline(); ok && !x.Endless {
		left := time.Until(deadline) + time.Millisecond // rounded up, so that the worker never times out first
		req.TimeoutMS = min(max(1, left.Milliseconds()), effects.MaxTimeout.Milliseconds())
	}
	if x.Args != nil {
		b, err := json.Marshal(x.Args)
		if err != nil {
			return effects.Request{}, fmt.Errorf("%s: %w", x.Effect, err)
		}
		req.Args = b
	}
	return req, nil
}

// send posts a request and reads its answer to the end.
func (c *Client) send(ctx context.Context, effect string, req effects.Request, each func(effects.Line)) (json.RawMessage, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silent := seedbed.Errorf(seedbed.ErrUnavailable, "the worker on %s has been silent for %s", c.at, c.silence)
	watchdog := time.AfterFunc(c.silence, func() { stop(silent) })
	defer watchdog.Stop()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker/v1/"+effect, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(post)
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), effects.MaxResult)
	lines.Split(bounded)
	for lines.Scan() {
		watchdog.Reset(c.silence)
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l effects.Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			if resp.StatusCode == http.StatusOK {
				return nil, c.broken(ctx, err) // in the middle of a line
			}
			return nil, seedbed.Errorf(seedbed.ErrUnavailable, "what answers on %s is not a worker, or is overloaded (HTTP status %s)",
				c.at, resp.Status)
		}
		switch {
		case l.Result != nil: // first, because such a line may be long
			return l.Result, nil
		case l.Error != nil:
			return nil, seedbed.KindError(l.Error.Kind, l.Error.Message)
		}
		each(l)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("the answer of the worker on %s to %s has a line that is too long: expected at most %d bytes, or %d of a result",
			c.at, effect, effects.MaxLine, effects.MaxResult)
	}
	return nil, c.broken(ctx, lines.Err())
}
