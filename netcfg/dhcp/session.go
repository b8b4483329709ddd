package dhcp

import (
	"net/netip"
	"time"

	"seedbed"
)

// A client may send requestBurst requests at once and one more per requestPause: far more than any
// client sends, and far less than would do harm.
const (
	requestBurst = 10
	requestPause = time.Second
)

// maxSessions bounds the memory. Beyond it all sessions are deleted, which only repeats reports.
const maxSessions = 1 << 16

// sessions holds what a running server remembers of its known clients.
type sessions struct {
	clients map[seedbed.MAC]*session
}

type session struct {
	tokens float64
	last   time.Time
	// addr and until are the lease as last reported; until is zero if none was reported.
	addr  netip.Addr
	until time.Time
	// complained is when a decline was last logged.
	complained time.Time
}

func newSessions() *sessions { return &sessions{clients: map[seedbed.MAC]*session{}} }

// allow takes one token of the client, and reports whether there was one.
func (s *sessions) allow(mac seedbed.MAC, now time.Time) bool {
	c, ok := s.clients[mac]
	if !ok {
		if len(s.clients) >= maxSessions {
			clear(s.clients)
		}
		c = &session{tokens: requestBurst, last: now}
		s.clients[mac] = c
	}
	c.tokens = min(requestBurst, c.tokens+float64(max(0, now.Sub(c.last)))/float64(requestPause))
	c.last = now
	if c.tokens < 1 {
		return false
	}
	c.tokens--
	return true
}

// news reports whether a lease is worth reporting: it is new, for another address, or a tenth of it
// or more has passed since it was last reported.
func (s *sessions) news(mac seedbed.MAC, addr netip.Addr, now time.Time, lease time.Duration) bool {
	c := s.clients[mac]
	if c.addr == addr && now.Add(lease).Sub(c.until) < lease/10 {
		return false
	}
	c.addr, c.until = addr, now.Add(lease)
	return true
}

// end deletes a lease. It returns false if none was reported.
func (s *sessions) end(mac seedbed.MAC) bool {
	c := s.clients[mac]
	had := !c.until.IsZero()
	c.addr, c.until = netip.Addr{}, time.Time{}
	return had
}

// complaintPause is the minimum time between two logged declines of one client.
const complaintPause = time.Minute

func (s *sessions) complaint(mac seedbed.MAC, now time.Time) bool {
	c := s.clients[mac]
	if !c.complained.IsZero() && now.Sub(c.complained) < complaintPause {
		return false
	}
	c.complained = now
	return true
}
