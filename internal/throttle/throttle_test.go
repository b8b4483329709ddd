package throttle

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	var l Limiter
	now := time.Unix(1000, 0)
	r := seedbed.Rate{PerSecond: 2, Burst: 3}
	admitted := func(project string, r seedbed.Rate) (n int) {
		for l.Enter(project, r, now) == 0 {
			n++
		}
		return n
	}
	if n := admitted("acme", r); n != 3 {
		t.Errorf("%d at once: want the burst", n)
	}
	if wait := l.Enter("acme", r, now); wait != time.Second/2 {
		t.Errorf("wait %s: want half a second", wait)
	}
	if n := admitted("shop", r); n != 3 {
		t.Errorf("%d of another project: want its own burst", n)
	}
	now = now.Add(time.Second)
	if n := admitted("acme", r); n != 2 {
		t.Errorf("%d after a second: want 2", n)
	}
	if wait := l.Enter("acme", seedbed.Rate{}, now); wait != 0 {
		t.Errorf("wait %s without a rate", wait)
	}

	// A changed rate counts from now on.
	now = now.Add(time.Second)
	if n := admitted("acme", seedbed.Rate{PerSecond: 1, Burst: 1}); n != 1 {
		t.Errorf("%d with a lower rate: want its burst", n)
	}
	now = now.Add(time.Second)
	r = seedbed.Rate{PerSecond: 50, Burst: 100}
	admitted("acme", r)
	now = now.Add(time.Second)
	if n := admitted("acme", r); n != 50 {
		t.Errorf("%d a second after the rate was raised: want 50", n)
	}
}

func TestLimiterAtOnce(t *testing.T) {
	t.Parallel()
	var l Limiter
	var n atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if l.Enter("acme", seedbed.Rate{PerSecond: 1, Burst: 10}, time.Unix(1000, 0)) == 0 {
				n.Add(1)
			}
		})
	}
	all.Wait()
	if n.Load() != 10 {
		t.Errorf("%d at once: want the burst of 10", n.Load())
	}
}

func BenchmarkEnter(b *testing.B) {
	for name, r := range map[string]seedbed.Rate{
		"no rate": {}, "admitted": {PerSecond: 1e6, Burst: 1 << 40}, "refused": {PerSecond: 1e-6, Burst: 1},
	} {
		b.Run(name, func(b *testing.B) {
			var l Limiter
			b.ReportAllocs()
			for b.Loop() {
				l.Enter("acme", r, time.Now())
			}
		})
	}
}
