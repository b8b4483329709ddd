package metadata

import "seedbed"

// The news are what an instance polls for: events/*, spot/* and instance-action. They
// come from the state of now, also during a crawl, which sees another state
// otherwise: a notice of two minutes must not be a minute late. What was listed
// in the crawl stays there until it ends, so that no client finds it gone.

// withNews makes r, which no other goroutine has, what a crawl under p sees while the
// instance has the record now.
func (r *record) withNews(p *pin, now *record) *record {
	r.maintenance, r.guest.Action = now.maintenance, now.guest.Action
	r.guest.Spot = p.spotWith(r.guest.Spot, now.guest.Spot)
	return r
}

// spotWith is what the crawl is told: the interruption of now with what the
// first state had, or any told since, and now has not.
func (p *pin) spotWith(first, now *seedbed.Spot) *seedbed.Spot {
	told := p.spot.Load()
	if told == nil {
		told = first
	}
	s := keepListed(told, now)
	p.spot.Store(s)
	return s
}

// keepListed is now, with the leaves of told that it would take away.
func keepListed(told, now *seedbed.Spot) *seedbed.Spot {
	switch {
	case told == nil:
		return now
	case now == nil:
		return told
	}
	s := *now
	if s.Rebalance.IsZero() {
		s.Rebalance = told.Rebalance
	}
	// A termination has two leaves, any other action one of them.
	if notice(told) && (!notice(&s) || told.Action == "terminate" && s.Action != "terminate") {
		s.Action, s.Time = told.Action, told.Time
	}
	return &s
}

// notice reports whether an action other than a rebalance was announced.
func notice(s *seedbed.Spot) bool { return s != nil && s.Action != "" && !s.Time.IsZero() }
