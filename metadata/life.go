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

// life is what is remembered of an instance from one state to the next: since
// it first asked, for as long as it is served, in this process.
type life struct {
	instance seedbed.InstanceID
	conns    atomic.Int32
	pin      atomic.Pointer[pin]
	fetched  atomic.Bool // its first user-data GET was told
	records  budget
	pace     pace
	met      atomic.Pointer[met]
	// recent is the record that was made last: a crawl of cloud-init asks on a new
	// connection each time. It is weak, so that no instance that once asked keeps one.
	recent atomic.Pointer[weak.Pointer[record]]
	// posting serializes what the instance posts. reported is true once a report
	// was taken, and password is the one that was.
	posting  sync.Mutex
	reported bool
	password string
}

// recordIn is the instance's record in x; nil when x does not serve it.
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
	spot  atomic.Pointer[seedbed.Spot] // that the crawl was told of, see withNews
}

// pinned is a pin and whose it is, or was: a life may have a later one by now.
type pinned struct {
	of  *life
	pin *pin
}

// lives are those of the instances that have asked.
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

// Posted says what a guest posted to an earlier process and seedbedd may not have
// yet. It is called before the first Apply.
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

// forget drops those of ids that x has not.
func (l *lives) forget(ids []seedbed.InstanceID, x *index) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.drop(id, x)
	}
}

// forgetAll drops all that x has not.
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

// pinTo keeps x for the crawl of an instance unless a pin holds already.
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

// unpin lets go of what ended pins hold: it may be much.
func (l *lives) unpin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for ; n < len(l.pinned) && !now.Before(l.pinned[n].pin.until); n++ {
		l.pinned[n].of.pin.CompareAndSwap(l.pinned[n].pin, nil)
		l.pinned[n] = pinned{} // the array lives on while there is a rest
	}
	if l.pinned = l.pinned[n:]; len(l.pinned) == 0 {
		l.pinned = nil
	}
}
