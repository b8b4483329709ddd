package worker

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
)

// exchange is one call as the client makes it.
type exchange struct {
	effect   string
	call     seedbed.Call // zero for what only reads
	args     any
	endless  bool
	progress func(seedbed.Progress)
	event    func(seedbed.DomainEvent)
	// output gets what commands put out; nil leaves that to the context.
	output func(seedbed.OutputLine)
}

func (x exchange) fenced() bool { return x.call.Job != "" }

func (x exchange) line(l line) {
	switch {
	case l.Progress != nil && x.progress != nil:
		x.progress(*l.Progress)
	case l.Event != nil && x.event != nil:
		x.event(*l.Event)
	case l.Output != nil && x.output != nil:
		x.output(*l.Output)
	}
}

// ask makes the call and decodes its result.
func ask[R any](ctx context.Context, c *Client, x exchange) (R, error) {
	var result R
	raw, err := c.do(ctx, x)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("the worker's answer to %s: %w", x.effect, err)
	}
	return result, nil
}

// do makes the call, and ends it when ctx ends.
func (c *Client) do(ctx context.Context, x exchange) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.effect, err)
	}
	if _, ok := ctx.Deadline(); !ok && !x.endless {
		limit := readTime
		if x.fenced() {
			limit = effectTime
		}
		timed, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = timed
	}
	if x.output == nil {
		x.output = seedbed.OutputOf(ctx)
	}
	req, err := x.request(ctx)
	if err != nil {
		return nil, err
	}
	// The exchange outlives ctx for a moment, to learn how the call ended.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan outcome, 1)
	go func() {
		raw, err := c.send(inner, x.effect, req, x.line)
		done <- outcome{raw, err}
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		o = c.end(ctx, stop, done, x, req)
	}
	if o.err == nil {
		return o.result, nil // perhaps at the last moment
	}
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", x.effect, err, o.err)
	}
	return nil, o.err
}

// ended is the error of a context that has ended, also when its timer is a
// moment later than the worker's answer.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// end ends a call whose context has ended: a worker whose time is over answers
// by itself, and is told otherwise.
func (c *Client) end(ctx context.Context, stop func(), done <-chan outcome, x exchange, req request) outcome {
	wait := time.NewTimer(c.grace)
	defer wait.Stop()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case o := <-done:
			return o
		case <-wait.C:
		}
	}
	if x.fenced() {
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

func (x exchange) request(ctx context.Context) (request, error) {
	req := request{ID: rand.Text(), Call: x.call}
	if deadline, ok := ctx.Deadline(); ok && !x.endless {
		left := time.Until(deadline) + time.Millisecond // rounded up: the worker is never the earlier
		req.TimeoutMS = min(max(1, left.Milliseconds()), maxTimeout.Milliseconds())
	}
	if x.args != nil {
		b, err := json.Marshal(x.args)
		if err != nil {
			return request{}, fmt.Errorf("%s: %w", x.effect, err)
		}
		req.Args = b
	}
	return req, nil
}

// send posts a request and reads its answer to the end.
func (c *Client) send(ctx context.Context, effect string, req request, each func(line)) (json.RawMessage, error) {
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
	lines.Buffer(make([]byte, 0, 4096), maxResult)
	lines.Split(bounded)
	for lines.Scan() {
		watchdog.Reset(c.silence)
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			if resp.StatusCode == http.StatusOK {
				return nil, c.broken(ctx, err) // in the middle of a line
			}
			return nil, seedbed.Errorf(seedbed.ErrUnavailable, "what answers on %s is no worker, or has too much to do (HTTP status %s)", c.at, resp.Status)
		}
		switch {
		case l.Result != nil: // before all else: such a line may be long
			return l.Result, nil
		case l.Error != nil:
			return nil, seedbed.KindError(l.Error.Kind, l.Error.Message)
		}
		each(l)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("the answer of the worker on %s to %s has a line that is too long: want at most %d bytes, or %d of a result", c.at, effect, maxLine, maxResult)
	}
	return nil, c.broken(ctx, lines.Err())
}
