package webhook

import (
	"context"
	"regexp"
	"strconv"
	"time"

	"seedbed"
	"seedbed/internal/header"
	"seedbed/internal/httpserve"

	"github.com/gofiber/fiber/v2"
)

// outcome is the outcome of a valid delivery.
type outcome struct {
	decision seedbed.Decision
	delivery string
	receipt  seedbed.Receipt
	plan     *seedbed.Plan
}

// accepted is the answer to a webhook that has a job.
type accepted struct {
	Job       seedbed.JobID    `json:"job"`
	State     seedbed.JobState `json:"state"`
	Duplicate bool             `json:"duplicate"`
	// Cancels is the create job of the instance to be removed, or the job that shuts down the one to be
	// stopped by force, if that job has not ended.
	Cancels seedbed.JobID `json:"cancels,omitempty"`
	URL     string        `json:"url"`
	// Error is why the job failed, if the request waited for its end, without what a provisioning
	// script has written.
	Error string `json:"error,omitempty"`
}

// withoutJob is the answer to a webhook that has no job.
type withoutJob struct {
	Decision seedbed.Decision `json:"decision"`
	Delivery string           `json:"delivery"`
	Plan     *seedbed.Plan    `json:"plan,omitempty"`
	// Duplicate is true if what it asks for was done before.
	Duplicate bool `json:"duplicate,omitempty"`
}

func (r *receiver) answer(c *fiber.Ctx, f header.Fields, a outcome) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	switch a.decision {
	case seedbed.DecisionIgnored:
		return c.Status(fiber.StatusAccepted).JSON(withoutJob{Decision: a.decision, Delivery: a.delivery})
	case seedbed.DecisionPlanned:
		return c.Status(fiber.StatusOK).JSON(withoutJob{Decision: a.decision, Delivery: a.delivery, Plan: a.plan})
	case seedbed.DecisionDone:
		return c.Status(fiber.StatusOK).JSON(withoutJob{Decision: a.decision, Delivery: a.delivery, Duplicate: a.receipt.Duplicate})
	}
	url := r.APIBase + "/api/v1/jobs/" + string(a.receipt.Job)
	c.Set(fiber.HeaderLocation, url)
	status, body := fiber.StatusAccepted, accepted{Job: a.receipt.Job, State: a.receipt.State,
		Duplicate: a.receipt.Duplicate, Cancels: a.receipt.Cancels, URL: url}
	if d := preferred(f.Get("prefer")); d > 0 {
		c.Set("Preference-Applied", "wait="+strconv.Itoa(int(d.Seconds())))
		if job, ended := r.await(a.receipt.Job, d); ended {
			status, body.State, body.Error = fiber.StatusOK, job.State, seedbed.WithoutScript(job.Error)
		}
	}
	return c.Status(status).JSON(body)
}

// maxWait is the longest that an answer is held back.
const maxWait = 60 * time.Second

var waitForm = regexp.MustCompile(`(?:^|[,;\s])wait=([0-9]{1,4})(?:$|[,;\s])`)

// preferred returns how long the sender wants to wait for the end of the job (RFC 7240, 4.3); 0 if
// it does not.
func preferred(header string) time.Duration {
	if header == "" {
		return 0
	}
	m := waitForm.FindStringSubmatch(header)
	if m == nil {
		return 0
	}
	seconds, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}

// pollInterval is how often a job is read without a hint, since writes of other processes may not
// give one.
const pollInterval = time.Second

// restBetween is the minimum time between two reads, since every write gives a hint.
const restBetween = 50 * time.Millisecond

// await waits for the end of a job, for at most d. It does not wait if too many requests already
// do, or once the server stops.
func (r *receiver) await(id seedbed.JobID, d time.Duration) (seedbed.Job, bool) {
	select {
	case r.waits <- struct{}{}:
		defer func() { <-r.waits }()
	default:
		return seedbed.Job{}, false
	}
	ctx, cancel := context.WithTimeout(r.base, d)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		hint := r.Jobs.Hint() // before reading, or a write in between would be missed
		if job, err := r.Jobs.Job(ctx, id); err == nil && job.State.Terminal() {
			return job, true
		}
		if !r.pause(ctx, hint, poll.C) || !r.pause(ctx, nil, time.After(restBetween)) {
			return seedbed.Job{}, false
		}
	}
}

// pause waits for a hint or for at. It returns false if ctx or the server ended first.
func (r *receiver) pause(ctx context.Context, hint <-chan struct{}, at <-chan time.Time) bool {
	select {
	case <-hint:
	case <-at:
	case <-r.stopping:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// busy answers that the limit of what the text names is reached.
func busy(c *fiber.Ctx, wait time.Duration, detail string) error {
	c.Set(fiber.HeaderRetryAfter, httpserve.Seconds(wait))
	return httpserve.Problem{Status: fiber.StatusTooManyRequests, Kind: "unavailable", Detail: detail}
}
