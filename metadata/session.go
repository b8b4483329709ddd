package metadata

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"seedbed"
)

// pinFor is how long a crawl sees the state that its first answer came from.
const pinFor = time.Minute

// session is what this process remembers of an instance across states: from its first request for as
// long as it is served.
type session struct {
	instance  seedbed.InstanceID
	conns     atomic.Int32
	pin       atomic.Pointer[pin]
	fetched   atomic.Pointer[string] // the report token of the guest whose first user-data GET was told
	records   budget
	limiter   limiter
	lastFacts atomic.Pointer[timedFacts]
	waits     waits
	// recent is the record that was made last. A crawl of cloud-init makes each request on a new
	// connection, which can reuse it. It is weak, so that it does not keep the record in memory.
	recent atomic.Pointer[weak.Pointer[record]]
	// posting serializes what the instance posts. It guards reported, which is the token of the last
	// report that was accepted.
	posting  sync.Mutex
	reported string
	// password is the password that was accepted and that no record has had yet.
	password atomic.Pointer[posted]
}

// posted is a password that the guest posted while its report token had the digest token
// (seedbed.TokenDigest). A rebuild gives the instance another token, or none. token is empty if it had
// none or that is not known.
type posted struct{ password, token string }

// passwordFor returns the password that is not in a record yet, for a guest with that report token.
func (s *session) passwordFor(token string) string {
	p := s.password.Load()
	if p == nil || p.token != "" && p.token != seedbed.TokenDigest(token) {
		return ""
	}
	return p.password
}

// firstFetch reports whether a guest with that report token fetches user-data for the first time.
func (s *session) firstFetch(token string) bool {
	last := s.fetched.Load()
	if last != nil && *last == token {
		return false
	}
	token = strings.Clone(token) // without the rest of its record
	return s.fetched.CompareAndSwap(last, &token)
}

// recordIn returns the instance's record in x; nil if x does not serve it.
func (s *session) recordIn(x *index) *record {
	if w := s.recent.Load(); w != nil {
		if r := w.Value(); r != nil && r.of == x {
			return r
		}
	}
	r := x.record(s.instance)
	if r != nil {
		w := weak.Make(r)
		s.recent.Store(&w)
	}
	return r
}

// pin holds the state that a crawl sees.
type pin struct {
	index *index
	until time.Time
	spot  atomic.Pointer[seedbed.Spot] // that the crawl has seen; see withNotices
	// target is the last target-lifecycle-state that the crawl has seen; nil if it has seen none.
	target atomic.Pointer[string]
}

// pinned is a pin and the session that it belongs to. The session may have a later pin by now.
type pinned struct {
	session *session
	pin     *pin
}

// sessions holds the session of each instance that has made a request.
type sessions struct {
	mu     sync.Mutex
	byID   map[seedbed.InstanceID]*session
	pinned []pinned // by the end of their pins
}

func (s *sessions) find(id seedbed.InstanceID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[seedbed.InstanceID]*session{}
	}
	if s.byID[id] == nil {
		s.byID[id] = &session{instance: id}
	}
	return s.byID[id]
}

// Posted adds a password that a guest posted to an earlier process and seedbedd may not have received
// yet. It must be called before the first Apply. Other events are ignored: a report that comes again
// is recorded again, and seedbedd counts the first.
func (d *Directory) Posted(e seedbed.GuestEvent) {
	if e.Kind == seedbed.GuestPassword {
		d.sessions.find(e.Instance).password.Store(&posted{e.Fields["password"], e.Token})
	}
}

// forget removes those of ids that x does not have, and the passwords that x has in their records. It
// wakes the requests of ids that wait for a change.
func (s *sessions) forget(ids []seedbed.InstanceID, x *index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.drop(id, x)
	}
}

// forgetAll is forget for all.
func (s *sessions) forgetAll(x *index) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.byID {
		s.drop(id, x)
	}
}

// drop is forget for one. The caller holds s.mu.
func (s *sessions) drop(id seedbed.InstanceID, x *index) {
	of := s.byID[id]
	if of == nil {
		return
	}
	of.waits.wake()
	switch g, ok := x.state.Guest(id); {
	case !ok:
		delete(s.byID, id)
	case g.Password != "": // from now on the record counts, also once a rebuild empties it
		of.password.Store(nil)
	}
}

// pinTo pins x for the crawl of an instance, unless a pin is still valid.
func (s *sessions) pinTo(of *session, x *index, now time.Time) {
	old := of.pin.Load()
	if old != nil && now.Before(old.until) {
		return
	}
	p := &pin{index: x, until: now.Add(pinFor)}
	if !of.pin.CompareAndSwap(old, p) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = append(s.pinned, pinned{of, p})
}

// unpin releases the states of expired pins, which may be large.
func (s *sessions) unpin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ; n < len(s.pinned) && !now.Before(s.pinned[n].pin.until); n++ {
		s.pinned[n].session.pin.CompareAndSwap(s.pinned[n].pin, nil)
		s.pinned[n] = pinned{} // the array stays in use while elements remain
	}
	if s.pinned = s.pinned[n:]; len(s.pinned) == 0 {
		s.pinned = nil
	}
}
