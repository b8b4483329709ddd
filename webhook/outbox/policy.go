package outbox

import (
	"net/http"
	"time"

	"seedbed"
)

// schedule holds the pause before each further attempt. It is the example of Standard Webhooks: ten
// attempts within 76 hours.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// jitter is the fraction by which a pause may be shorter or longer.
	jitter = 0.2
	// throttle is the minimum pause after an answer that means "too many requests", or after a
	// timeout.
	throttle = time.Minute
	// The circuit of an endpoint opens with that many failures in a row. It lets one attempt
	// through after the pause, which doubles each time.
	circuitFailures            = 5
	circuitPause, longestPause = time.Minute, time.Hour
	// patience is how long an endpoint may fail without a success before it is disabled.
	patience = 5 * 24 * time.Hour
)

// result is the outcome of sending.
type result struct {
	at         time.Time
	took       time.Duration
	status     int           // 0 without an answer
	retryAfter time.Duration // 0 if the answer does not set it
	timeout    bool
	err        string // empty for success
}

// judge decides what follows from a result; random is in [0, 1).
func judge(c seedbed.OutgoingClaim, r result, random float64) seedbed.Attempt {
	a := seedbed.Attempt{At: r.at, Took: r.took, Status: r.status, Error: r.err, State: seedbed.OutgoingSent}
	if r.err == "" {
		return a
	}
	if n := c.Endpoint.Failures + 1; n >= circuitFailures {
		a.Pause = min(circuitPause<<min(n-circuitFailures, 10), longestPause)
	}
	since := c.Endpoint.FailingSince
	switch {
	case r.status == http.StatusGone:
		a.State, a.Disable = seedbed.OutgoingDead, "it answered 410 Gone"
		return a
	case !since.IsZero() && r.at.Sub(since) >= patience:
		a.Disable = "nothing was delivered since " + since.UTC().Format(time.RFC3339) + "; the last error: " + r.err
	}
	made := c.Outgoing.Attempts + 1
	if made >= len(schedule) {
		a.State = seedbed.OutgoingDead
		return a
	}
	a.State, a.Retry = seedbed.OutgoingPending, pause(schedule[made], r, random)
	return a
}

// pause returns how long to wait before the next attempt: the step with jitter, or what the
// receiver asks for, limited to between one and two steps.
func pause(step time.Duration, r result, random float64) time.Duration {
	d := time.Duration(float64(step) * (1 - jitter + 2*jitter*random))
	if r.retryAfter > 0 {
		d = min(max(r.retryAfter, step), 2*step)
	}
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout:
		return max(d, throttle)
	}
	if r.timeout {
		return max(d, throttle)
	}
	return d
}
