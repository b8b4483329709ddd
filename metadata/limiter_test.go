package metadata

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: a burst goes at once, and what follows at the even rate; a pause gives a burst again,
// and no more than that.
func TestPace(t *testing.T) {
	t.Parallel()
	const rate, burst = 100, 1024
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Directory: NewDirectory(), Limits: Limits{Rate: rate, Burst: burst}})
		l := &session{}
		round := func(name string, want int) {
			t.Helper()
			began := time.Now()
			var at atomic.Int32 // answered without waiting
			var all sync.WaitGroup
			for range burst + rate {
				all.Go(func() {
					if !s.slowDown(t.Context(), l, time.Now()) {
						t.Error("refused")
					}
					if time.Since(began) == 0 {
						at.Add(1)
					}
				})
			}
			all.Wait()
			if got := int(at.Load()); got != want {
				t.Errorf("%s: %d at once, want %d", name, got, want)
			}
			if took, want := time.Since(began), time.Second*time.Duration(burst+rate-want)/rate; took != want {
				t.Errorf("%s: %d took %v, want %v", name, burst+rate, took, want)
			}
		}
		round("first", burst)
		round("straight after", 0)
		time.Sleep(time.Hour)
		round("after an hour", burst)
		time.Sleep(time.Second)
		round("after a second", rate)
		if got := s.Stats().Delayed; got != 4*(burst+rate)-2*burst-rate {
			t.Errorf("%d were delayed", got)
		}
	})
}

// TestPaceEnds: who waits when the server ends is let go.
func TestPaceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Directory: NewDirectory(), Limits: Limits{Rate: 1, Burst: 1024}})
		l := &session{}
		for range 1024 {
			s.slowDown(t.Context(), l, time.Now())
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool, 1)
		go func() { ended <- s.slowDown(ctx, l, time.Now()) }()
		synctest.Wait()
		cancel()
		if <-ended {
			t.Error("was answered")
		}
	})
}

// TestTooFast: a guest that asks faster than it may gets every answer, and no 429; another is not
// held up by it.
func TestTooFast(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 5, 1024 })
	l.apply(stateOf(nil, guestA(), guestB()))
	a, b := l.client(addrA), l.client(addrB)
	n := int64(0)
	for l.srv.Stats().Delayed == 0 { // until this process was not held up for so long that there is a burst again
		began := time.Now()
		for range 1024 { // the burst, without the time that it takes
			l.dir.sessions.find(idA).limiter.take(time.Since(l.srv.began), l.srv.interval, 1024)
		}
		const more = 5
		for range more {
			l.want(a, 200, "GET", "/latest/meta-data/hostname")
		}
		if took := time.Since(began); took < (more-2)*l.srv.interval {
			t.Errorf("%d requests took %v", more, took)
		}
		n += more
	}
	before := l.srv.Stats().Delayed
	l.want(b, 200, "GET", "/latest/meta-data/hostname")
	st := l.srv.Stats()
	if before == 0 || st.Delayed != before {
		t.Errorf("%d were delayed, and %d with the other guest's", before, st.Delayed)
	}
	if st.Requests[200] != n+1 || len(st.Requests) != 1 {
		t.Errorf("answers %v", st.Requests)
	}
}
