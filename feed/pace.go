package feed

import (
	"context"
	"math/rand/v2"
	"time"

	"seedbed/internal/run"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// pace is the exponential backoff between attempts, from firstBackoff to maxBackoff. Its zero value
// starts at firstBackoff.
type pace struct{ next time.Duration }

// pause waits, and returns false if ctx ended first.
func (p *pace) pause(ctx context.Context) bool {
	p.next = max(p.next, firstBackoff)
	d := jitter(p.next)
	p.next = min(2*p.next, maxBackoff)
	return run.Sleep(ctx, d)
}

// jitter spreads retries over the second half of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
