package webhook

import (
	"math"
	"sync"
	"time"

	"seedbed"
)

// gauges hold what each hook with a limit is doing.
type gauges struct {
	mu sync.Mutex
	of map[string]*gauge
}

// gauge is one hook's bucket of deliveries, and how many it works on.
type gauge struct {
	left float64
	seen time.Time
	busy int
}

// enter takes a place for one verified delivery of h, to be left with the
// function that it returns; or none, and how long to wait for one.
func (g *gauges) enter(h seedbed.Hook, now time.Time) (leave func(), wait time.Duration) {
	if h.Rate == 0 && h.Concurrency == 0 {
		return func() {}, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[string]*gauge{}
	}
	most := math.Max(1, h.Rate)
	x := g.of[h.Name]
	if x == nil {
		x = &gauge{left: most, seen: now}
		g.of[h.Name] = x
	}
	if h.Concurrency > 0 && x.busy >= h.Concurrency {
		return nil, time.Second
	}
	if h.Rate > 0 {
		x.left = math.Min(most, x.left+math.Max(0, now.Sub(x.seen).Seconds())*h.Rate)
		x.seen = now
		if x.left < 1 {
			return nil, time.Duration((1 - x.left) / h.Rate * float64(time.Second))
		}
		x.left--
	}
	x.busy++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		x.busy--
	}, 0
}
