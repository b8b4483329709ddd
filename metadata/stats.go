package metadata

import (
	"sync/atomic"
	"time"
)

// Stats is a snapshot for metrics and health.
type Stats struct {
	// Requests counts answers by HTTP status.
	Requests map[int]int64
	// Answers counts answers by dialect, version and status. Counts of zero are left out.
	Answers []AnswerCount
	// NoToken counts requests without a session token that were allowed, and NoTokenRejected those
	// that were rejected (Amazon's MetadataNoToken and MetadataNoTokenRejected).
	NoToken, NoTokenRejected int64
	// Delayed counts requests that were delayed because of Limits.Rate.
	Delayed int64
	// Latency is the time from the last byte of a request's header to the answer, including delays.
	Latency Histogram
	// Unknown counts requests of unknown callers that got 404. Held counts those that were held.
	// Refused counts connections that were closed at once, because their caller could not be
	// identified or had too many. Malformed counts input that is not a request.
	Unknown, Held, Refused, Malformed int64
	// Conns are open now; UnknownConns of them belong to unknown callers. Waiting requests wait for a
	// change.
	Conns, UnknownConns, Waiting int
	// Guests, Revision, InSync and Applied describe the directory; Applied is when it was last
	// replaced, zero before the first time.
	Guests   int
	Revision int64
	InSync   bool
	Applied  time.Time
}

// AnswerCount is a number of answers. Dialect is root, ec2, token, openstack, nocloud, report or
// other; Version is latest, dated, 1.0 or none.
type AnswerCount struct {
	Dialect, Version string
	Status           int
	Count            int64
}

type counters struct {
	answers                           [dialects][versionClasses][len(statuses)]atomic.Int64
	unknown, held, refused, malformed atomic.Int64
	noToken, noTokenRejected, delayed atomic.Int64
	latency                           histogram
	conns, unknownConns, waiting      atomic.Int32
}

// statuses are the statuses that are counted; the last stands for any other.
var statuses = [...]int{200, 400, 401, 403, 404, 405, 409, 503, 500}

func (c *counters) answer(where place, status int) {
	i := 0
	for i < len(statuses)-1 && statuses[i] != status {
		i++
	}
	c.answers[where.dialect][where.version][i].Add(1)
}

// Stats returns a snapshot of the counters and of the current state.
func (s *Server) Stats() Stats {
	x := s.dir.current.Load()
	c := &s.count
	st := Stats{
		Requests: map[int]int64{},
		NoToken:  c.noToken.Load(), NoTokenRejected: c.noTokenRejected.Load(), Delayed: c.delayed.Load(),
		Latency: c.latency.snapshot(),
		Unknown: c.unknown.Load(), Held: c.held.Load(), Refused: c.refused.Load(), Malformed: c.malformed.Load(),
		Conns: int(c.conns.Load()), UnknownConns: int(c.unknownConns.Load()), Waiting: int(c.waiting.Load()),
		Guests: x.guests, Revision: max(0, x.state.Revision), InSync: x.state.InSync, Applied: x.applied,
	}
	for d := range dialects {
		for v := range versionClasses {
			for i, status := range statuses {
				if n := c.answers[d][v][i].Load(); n > 0 {
					st.Requests[status] += n
					st.Answers = append(st.Answers, AnswerCount{dialectNames[d], versionNames[v], status, n})
				}
			}
		}
	}
	return st
}

// throttle allows one log line per period, so that guests cannot fill the log.
type throttle struct {
	every time.Duration
	last  atomic.Int64
	lost  atomic.Int64
}

// ready reports whether to write now, and how many lines were left out before.
func (t *throttle) ready(now time.Time) (lost int64, ok bool) {
	last := t.last.Load()
	if now.UnixNano()-last < int64(t.every) || !t.last.CompareAndSwap(last, now.UnixNano()) {
		t.lost.Add(1)
		return 0, false
	}
	return t.lost.Swap(0), true
}

// warnf logs, throttled, what callers can cause at will.
func (s *Server) warnf(msg string, args ...any) {
	if lost, ok := s.warn.ready(time.Now()); ok {
		s.log.Warn(msg, append(args, "left_out", lost)...)
	}
}
