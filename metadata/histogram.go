package metadata

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations.
type Histogram struct {
	// Bounds are the inclusive upper bounds of Counts. Counts has one more element, for longer
	// durations.
	Bounds []time.Duration
	Counts []int64
	Sum    time.Duration
}

// The first bound is 16 microseconds, and each of the others twice the one before it, up to half a
// second.
const (
	firstBound = 16 * time.Microsecond
	bounds     = 16
)

// histogram counts durations without a lock.
type histogram struct {
	counts [bounds + 1]atomic.Int64
	sum    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	// The number of doublings of the first bound that d needs.
	i := 0
	if d > firstBound {
		i = min(bits.Len64(uint64((d-1)/firstBound)), bounds)
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) snapshot() Histogram {
	out := Histogram{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		if i < bounds {
			out.Bounds = append(out.Bounds, firstBound<<i)
		}
		out.Counts = append(out.Counts, h.counts[i].Load())
	}
	return out
}
