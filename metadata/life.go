package metadata

import (
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"seedbed"
)

// pinFor is how long a crawl sees the state that its first answer came from.
const pinFor = time.Minute

// life is what this process remembers of an instance across states: from its first request for as
// long as it is served.
type life struct {
	instance seedbed.InstanceID
	conns    atomic.Int32
	pin      atomic.Pointer[pin]
	fetched  atomic.Bool // its first user-data GET was reported
	records  budget
	pace     pace
	met      atomic.Pointer[met]
	// recent is the record that was made last. A crawl of cloud-init makes each request on a new
	// connection, which can reuse it. It is weak, so that it does not keep the record in memory.
	recent atomic.Pointer[weak.Pointer[record]]
	// posting serializes what the instance posts. reported is true once a report was accepted.
	// password is the password that was accepted.
	posting  sync.Mutex
	reported bool
	password string
}

// recordIn returns the instance's record in x; nil if x does not serve it.
func (l *life) recordIn(x *index) *record {
	if w := l.recent.Load(); w != nil {
		if r := w.Value(); r != nil && r.of == x {
			return r
		}
	}
	r := x.record(l.instance)
	if r != nil {
		w := weak.Make(r)
		l.recent.Store(&w)
	}
	return r
}

// pin holds the state that a crawl sees.
type pin struct {
	index *index
	until time.Time
	spot  atomic.Pointer[seedbed.Spot] // that the crawl has seen; see withNews
}

// pinned is a pin and the life that it belongs to. The life may have a later pin by now.
type pinned struct {
	of  *life
	pin *pin
}

// lives holds the life of each instance that has made a request.
type lives struct {
	mu     sync.Mutex
	of     map[seedbed.InstanceID]*life
	pinned []pinned // by the end of their pins
}

func (l *lives) find(id seedbed.InstanceID) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[seedbed.InstanceID]*life{}
	}
	if l.of[id] == nil {
		l.of[id] = &life{instance: id}
	}
	return l.of[id]
}

// Posted adds what a guest posted to an earlier process and seedbedd may not have received yet. It
// must be called before the first Apply.
func (d *Directory) Posted(e seedbed.GuestEvent) {
	l := d.lives.find(e.Instance)
	l.posting.Lock()
	defer l.posting.Unlock()
	switch e.Kind {
	case seedbed.GuestReport:
		l.reported = true
	case seedbed.GuestPassword:
		l.password = e.Fields["password"]
	}
}

// forget removes those of ids that x does not have.
func (l *lives) forget(ids []seedbed.InstanceID, x *index) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.drop(id, x)
	}
}

// forgetAll removes all that x does not have.
func (l *lives) forgetAll(x *index) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.of {
		l.drop(id, x)
	}
}

func (l *lives) drop(id seedbed.InstanceID, x *index) {
	if l.of[id] == nil {
		return
	}
	if _, ok := x.state.Guest(id); !ok {
		delete(l.of, id)
	}
}

// pinTo pins x for the crawl of an instance, unless a pin is still valid.
func (l *lives) pinTo(of *life, x *index, now time.Time) {
	old := of.pin.Load()
	if old != nil && now.Before(old.until) {
		return
	}
	p := &pin{index: x, until: now.Add(pinFor)}
	if !of.pin.CompareAndSwap(old, p) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pinned = append(l.pinned, pinned{of, p})
}

// unpin releases the states of expired pins, which may be large.
func (l *lives) unpin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for ; n < len(l.pinned) && !now.Before(l.pinned[n].pin.until); n++ {
		l.pinned[n].of.pin.CompareAndSwap(l.pinned[n].pin, nil)
		l.pinned[n] = pinned{} // the array stays in use while elements remain
	}
	if l.pinned = l.pinned[n:]; len(l.pinned) == 0 {
		l.pinned = nil
	}
}
