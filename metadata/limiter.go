package metadata

import (
	"context"
	"sync/atomic"
	"time"
)

// limiter limits the request rate of an instance, with a burst, by the generic cell rate algorithm
// (ITU-T I.371) on one number. A request that is too early is answered later rather than refused,
// because cloud-init takes 429 for a failure. The number of the instance's connections, each with
// one request at a time, bounds how many requests wait.
type limiter struct {
	next atomic.Int64 // when the next request would be due at the even rate
}

// take returns how long a request at now has to wait, at one request per interval and a burst of
// them at once. Times are since any fixed moment.
func (l *limiter) take(now, interval time.Duration, burst int) time.Duration {
	for {
		old := l.next.Load()
		due := max(time.Duration(old), now) + interval
		if l.next.CompareAndSwap(old, int64(due)) {
			return max(0, due-now-time.Duration(burst)*interval)
		}
	}
}

// slowDown waits until the caller's request may be answered. It returns false if the server ended
// first.
func (s *Server) slowDown(serving context.Context, of *session, at time.Time) bool {
	wait := of.limiter.take(at.Sub(s.began), s.interval, s.cfg.Limits.Burst)
	if wait == 0 {
		return true
	}
	s.count.delayed.Add(1)
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-serving.Done():
		return false
	}
}
