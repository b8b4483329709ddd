package metadata

import (
	"sync/atomic"
	"time"
)

// Stats is a snapshot for metrics and health.
type Stats struct {
	// Requests counts answers by HTTP status.
	Requests map[int]int64
	// Unknown counts requests of unknown callers that got 404, Held those that
	// were held, Refused connections that were closed at once (not to be
	// identified now, or too many), Malformed what was no request.
	Unknown, Held, Refused, Malformed int64
	// Conns are open now; UnknownConns of them belong to unknown callers.
	Conns, UnknownConns int
	// Guests, Revision, InSync and Applied describe the directory; Applied is
	// when it was last replaced, zero before the first time.
	Guests   int
	Revision int64
	InSync   bool
	Applied  time.Time
}

type counters struct {
	byStatus                          [600]atomic.Int64
	unknown, held, refused, malformed atomic.Int64
	conns, unknownConns               atomic.Int32
}

func (c *counters) status(code int) {
	if code >= 0 && code < len(c.byStatus) {
		c.byStatus[code].Add(1)
	}
}

// Stats tells what the server has done so far and what it holds.
func (s *Server) Stats() Stats {
	x := s.dir.current.Load()
	st := Stats{
		Requests: map[int]int64{},
		Unknown:  s.count.unknown.Load(), Held: s.count.held.Load(),
		Refused: s.count.refused.Load(), Malformed: s.count.malformed.Load(),
		Conns: int(s.count.conns.Load()), UnknownConns: int(s.count.unknownConns.Load()),
		Guests: len(x.entries), Revision: x.revision, InSync: x.inSync, Applied: x.applied,
	}
	for code := range s.count.byStatus {
		if n := s.count.byStatus[code].Load(); n > 0 {
			st.Requests[code] = n
		}
	}
	return st
}

// throttle lets one line through per period: guests must not fill the log.
type throttle struct {
	every time.Duration
	last  atomic.Int64
	lost  atomic.Int64
}

// ready tells whether to write now, and how many lines were left out before.
func (t *throttle) ready(now time.Time) (lost int64, ok bool) {
	last := t.last.Load()
	if now.UnixNano()-last < int64(t.every) || !t.last.CompareAndSwap(last, now.UnixNano()) {
		t.lost.Add(1)
		return 0, false
	}
	return t.lost.Swap(0), true
}

// warnf logs what callers can cause at will.
func (s *Server) warnf(msg string, args ...any) {
	if lost, ok := s.warn.ready(time.Now()); ok {
		s.log.Warn(msg, append(args, "left_out", lost)...)
	}
}
