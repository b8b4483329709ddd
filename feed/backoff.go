package feed

import (
	"context"
	"math/rand/v2"
	"time"

	"seedbed/internal/sleep"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// backoff is the exponential backoff between attempts, from firstBackoff to maxBackoff. Its zero value
// starts at firstBackoff.
type backoff struct{ next time.Duration }

// wait waits, and returns false if ctx ended first.
func (b *backoff) wait(ctx context.Context) bool {
	b.next = max(b.next, firstBackoff)
	d := jitter(b.next)
	b.next = min(2*b.next, maxBackoff)
	return sleep.For(ctx, d)
}

// jitter spreads retries over the second half of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
