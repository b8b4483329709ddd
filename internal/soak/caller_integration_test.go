//go:build integration && libvirt

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"seedbed"
	"seedbed/webhook/signature"
)

// most is how many instances a caller has at the same time.
const most = 3

// caller makes instances, cancels some of the jobs at a random moment, and removes others.
type caller struct {
	run   *run
	name  string
	plan  *rand.Rand
	key   []byte
	alive []string
}

func (c *caller) work() {
	for n := 0; ; n++ {
		select {
		case <-c.run.over:
			return
		default:
		}
		name := fmt.Sprintf("%s-%d", c.name, n)
		hold, hook := c.plan.IntN(3) > 0, c.plan.IntN(2) == 0
		again, cancel, wait := c.plan.IntN(3) == 0, c.plan.IntN(2) == 0, time.Duration(c.plan.IntN(1200))*time.Millisecond
		job := ""
		if hook {
			job = c.deliver(name, hold, again)
		} else {
			job = c.create(name, hold)
		}
		if job == "" {
			c.pause(500 * time.Millisecond) // refused, or not known
			continue
		}
		c.run.book.created(job, name)
		c.pause(wait)
		if cancel && c.cancel(job) {
			continue
		}
		if c.alive = append(c.alive, name); len(c.alive) >= most {
			c.remove(c.alive[0])
			c.alive = c.alive[1:]
		}
	}
}

// pause waits, or until the callers are to end.
func (c *caller) pause(d time.Duration) {
	select {
	case <-c.run.over:
	case <-time.After(d):
	}
}

// limit bounds one request, of which a frozen daemon does not answer.
const limit = 20 * time.Second

// create asks for an instance. It returns the job, or "" if there is none or the answer was lost.
func (c *caller) create(name string, hold bool) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := held(name)
	*r.Hold = hold
	receipt, err := c.run.stack.API.CreateInstance(ctx, r)
	if err != nil {
		return ""
	}
	return string(receipt.Job)
}

// deliver sends a signed delivery until it is answered, and at times once more afterwards.
func (c *caller) deliver(name string, hold, again bool) (job string) {
	body := fmt.Appendf(nil, `{"action":"create","name":%q,"profile":"small","hold":%t}`, name, hold)
	for job == "" || again {
		status, got := c.post("evt_"+name, body)
		switch {
		case status == http.StatusAccepted || status == http.StatusOK:
			c.run.book.answered("evt_"+name, got)
			again = again && job == ""
			job = got
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests:
			return job
		default:
			select {
			case <-c.run.over:
				return job
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return job
}

// post sends one delivery; status 0 means that there was no answer.
func (c *caller) post(id string, body []byte) (status int, job string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.run.stack.Hooks+"/hooks/forge", bytes.NewReader(body))
	if err != nil {
		return 0, ""
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signature.HeaderID, id)
	req.Header.Set(signature.HeaderTimestamp, fmt.Sprint(now.Unix()))
	req.Header.Set(signature.HeaderSignature, signature.Sign(c.key, id, now, body))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var answer struct {
		Job string `json:"job"`
	}
	if err != nil || json.Unmarshal(text, &answer) != nil {
		return 0, ""
	}
	return resp.StatusCode, answer.Job
}

// cancel asks to cancel a job until that is answered. It reports whether it was accepted. If the job
// has ended, or goes on to be undone, another cancel is refused or changes nothing.
func (c *caller) cancel(job string) bool {
	for {
		ctx, end := context.WithTimeout(context.Background(), limit)
		err := c.run.stack.API.CancelJob(ctx, job)
		end()
		switch {
		case err == nil:
			c.run.book.cancelled(job)
			return true
		case errors.Is(err, seedbed.ErrConflict), errors.Is(err, seedbed.ErrNotFound), errors.Is(err, seedbed.ErrInvalid):
			return false
		}
		select {
		case <-c.run.over:
			return true // what came of it is not known
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// remove asks for the removal of an instance, once.
func (c *caller) remove(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c.run.book.asked(name)
	if receipt, err := c.run.stack.API.RemoveInstance(ctx, name, ""); err == nil {
		c.run.book.removed(name, string(receipt.Job))
	}
}
