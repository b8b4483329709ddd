package metadata

import (
	"sync"
	"sync/atomic"
	"time"

	"seedbed"
)

// pinFor is how long a crawl sees the record that its first listing came from.
const pinFor = time.Minute

// life is what is remembered of an instance from one record to the next: for
// as long as it is served, in this process.
type life struct {
	conns   atomic.Int32
	pin     atomic.Pointer[pin]
	fetched atomic.Bool // its first user-data GET was told
	records budget
	// reporting serializes the reports of this instance; reported is true once one was taken.
	reporting sync.Mutex
	reported  bool
}

type pin struct {
	record *record
	until  time.Time
}

// view is the record that a request sees at now: the pinned one while there is one.
func (e *entry) view(now time.Time) *record {
	if p := e.life.pin.Load(); p != nil && now.Before(p.until) {
		return p.record
	}
	return e.record
}

// pinTo keeps r for the instance's crawl unless a pin holds already.
func (e *entry) pinTo(r *record, now time.Time) {
	old := e.life.pin.Load()
	if old != nil && now.Before(old.until) {
		return
	}
	e.life.pin.CompareAndSwap(old, &pin{record: r, until: now.Add(pinFor)})
}

// id is the instance that the entry is of.
func (e *entry) id() seedbed.InstanceID { return e.record.guest.ID }
