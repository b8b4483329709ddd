package feed

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// pace is how long to rest between tries: longer and longer, from firstBackoff to
// maxBackoff. A new one begins anew.
type pace struct{ next time.Duration }

// pause rests, and is false when ctx ended first.
func (p *pace) pause(ctx context.Context) bool {
	p.next = max(p.next, firstBackoff)
	d := jitter(p.next)
	p.next = min(2*p.next, maxBackoff)
	return pause(ctx, d)
}

// jitter spreads retries over the second half of d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// pause waits, and is false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
