package metadata

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"seedbed"
)

const (
	// recordBurst is how many access records an instance can have at once, and recordEvery how
	// often it gets another.
	recordBurst = 256
	recordEvery = 500 * time.Millisecond
)

// budget bounds the access records of one instance. Requests beyond it are counted. It is a token
// bucket; one of x/time/rate is twice as large and stays empty after the clock was set back.
type budget struct {
	mu   sync.Mutex
	used float64 // tokens; the bucket is empty at recordBurst
	at   time.Time
	over int64
}

// take reports whether a request at now gets a record of its own. If not, the request is counted,
// and first is true if it is the first since the last sum.
func (b *budget) take(now time.Time) (single, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over == 0 && b.token(now) {
		return true, false
	}
	b.over++
	return false, b.over == 1
}

// settle returns and resets the number of counted requests, if the budget has room for their record
// or at the end. Otherwise done is false.
func (b *budget) settle(now time.Time, end bool) (over int64, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over > 0 && !b.token(now) && !end {
		return 0, false
	}
	over, b.over = b.over, 0
	return over, true
}

func (b *budget) token(now time.Time) bool {
	b.used = max(0, b.used-max(0, float64(now.Sub(b.at))/float64(recordEvery)))
	b.at = now
	if b.used+1 > recordBurst {
		return false
	}
	b.used++
	return true
}

// overLimit holds the instances with counted requests that were not yet recorded.
type overLimit struct {
	mu       sync.Mutex
	sessions map[*session]seedbed.InstanceID
}

func (o *overLimit) add(s *session, id seedbed.InstanceID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sessions == nil {
		o.sessions = map[*session]seedbed.InstanceID{}
	}
	o.sessions[s] = id
}

// settle returns the sums that the budgets have room for, or all at the end.
func (o *overLimit) settle(now time.Time, end bool) map[seedbed.InstanceID]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	sums := map[seedbed.InstanceID]int64{}
	for s, id := range o.sessions {
		n, done := s.records.settle(now, end)
		if done {
			delete(o.sessions, s)
		}
		if n > 0 {
			sums[id] = n
		}
	}
	return sums
}

// record reports an answer, with a record of its own while the instance's budget lasts.
func (s *Server) record(ctx *fasthttp.RequestCtx, who *conn) {
	status, now := ctx.Response.StatusCode(), s.now()
	session, id := who.session, who.who
	single, first := session.records.take(now)
	if first {
		s.overLimit.add(session, id)
	}
	if !single {
		return
	}
	e := seedbed.GuestEvent{
		Instance: id, Kind: seedbed.GuestAccess, At: now,
		Method: printable(ctx.Method(), 16), Path: shownPath(ctx, who), Status: status, Bytes: sentBytes(ctx),
	}
	if e.OfUserData() {
		e.Token = seedbed.TokenDigest(who.record.guest.ReportToken)
	}
	s.cfg.OnEvent(e)
}

// recordSums reports the requests that have no record of their own until ctx ends, and then the
// rest.
func (s *Server) recordSums(ctx context.Context) {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.reportSums(false)
			s.dir.sessions.unpin(s.now())
		}
	}
	s.reportSums(true)
}

func (s *Server) reportSums(end bool) {
	now := s.now()
	for id, n := range s.overLimit.settle(now, end) {
		path := fmt.Sprintf("(%d more requests)", n)
		if n == 1 {
			path = "(1 more request)"
		}
		s.cfg.OnEvent(seedbed.GuestEvent{Instance: id, Kind: seedbed.GuestAccess, At: now, Path: path})
	}
}
