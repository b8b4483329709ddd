// Package throttle bounds how often something is done for each project. It counts in the memory of this
// process.
package throttle

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"seedbed"
)

// Limiter has a token bucket for each project with a rate. The zero Limiter is ready for use. It is safe for
// concurrent use.
type Limiter struct {
	mu sync.Mutex
	// of grows with the projects that have had a rate, whose names are never used again.
	of map[string]*rate.Limiter
}

// Enter admits one more of what the rate bounds at now, and returns zero. For a project above its rate, it
// returns how long to wait.
func (l *Limiter) Enter(project string, r seedbed.Rate, now time.Time) (wait time.Duration) {
	if r.PerSecond == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.of[project]
	if b == nil {
		if l.of == nil {
			l.of = map[string]*rate.Limiter{}
		}
		b = rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
		l.of[project] = b
	}
	if b.Limit() != rate.Limit(r.PerSecond) || b.Burst() != r.Burst { // the rate was changed
		b.SetLimitAt(now, rate.Limit(r.PerSecond))
		b.SetBurstAt(now, r.Burst)
	}
	if b.AllowN(now, 1) {
		return 0
	}
	short := (1 - b.TokensAt(now)) / r.PerSecond
	return max(time.Duration(short*float64(time.Second)), time.Millisecond)
}
