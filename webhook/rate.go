package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/time/rate"

	"seedbed"
)

// rateLimiters hold the state of each hook that has a rate or concurrency limit.
type rateLimiters struct {
	mu sync.Mutex
	of map[string]*rateLimiter
}

// rateLimiter is one hook's token bucket, and the number of deliveries in progress.
type rateLimiter struct {
	bucket *rate.Limiter
	busy   int
}

// enter admits one verified delivery of h, whose end is reported by calling leave. If the hook is
// at a limit, leave is nil and wait says when to try again.
func (g *rateLimiters) enter(h seedbed.Hook, now time.Time) (leave func(), wait time.Duration) {
	if h.Rate == 0 && h.Concurrency == 0 {
		return func() {}, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[string]*rateLimiter{}
	}
	x := g.of[h.Name]
	if x == nil {
		x = &rateLimiter{bucket: rate.NewLimiter(limitOf(h), burstOf(h))}
		g.of[h.Name] = x
	}
	if h.Concurrency > 0 && x.busy >= h.Concurrency {
		return nil, time.Second
	}
	if h.Rate > 0 {
		if x.bucket.Limit() != limitOf(h) { // the hook was changed
			x.bucket.SetLimitAt(now, limitOf(h))
			x.bucket.SetBurstAt(now, burstOf(h))
		}
		r := x.bucket.ReserveN(now, 1)
		if wait := r.DelayFrom(now); wait > 0 {
			r.CancelAt(now)
			return nil, wait
		}
	}
	x.busy++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		x.busy--
	}, 0
}

func limitOf(h seedbed.Hook) rate.Limit { return rate.Limit(h.Rate) }

// burstOf returns the number of deliveries of one second, but at least one.
func burstOf(h seedbed.Hook) int { return max(1, int(h.Rate)) }

// slow refuses a delivery with 429 if the project of its hook is above its rate. Only verified deliveries
// count, so that a stranger cannot use up the rate.
func (r *receiver) slow(ctx context.Context, c *fiber.Ctx, d *delivered) error {
	if r.ProjectRates == nil {
		return nil
	}
	project := seedbed.ProjectOf(d.Hook)
	rates, err := r.ProjectRates(ctx, project)
	if err != nil {
		d.log().Error("webhook not accepted: the rate of its project cannot be read", "err", err)
		return problemOf(seedbed.ErrUnavailable)
	}
	wait := r.rates.Enter(project, rates.Deliveries(), d.Received)
	if wait == 0 {
		return nil
	}
	d.log().Warn("webhook throttled", "err", "its project is above its rate")
	return busy(c, wait, fmt.Sprintf("project %q is above its rate of %g deliveries per second; try again later", project, rates.HookRate))
}
