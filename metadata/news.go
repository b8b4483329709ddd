package metadata

import "seedbed"

// The news are what clients poll for: events/*, spot/* and instance-action. They come from the
// current state even during a crawl, which otherwise sees its pinned state, because a notice of two
// minutes must not be a minute late. What the crawl has listed stays until it ends, so that the
// client can fetch it.

// withNews updates r, which no other goroutine uses, to what a crawl under p sees while now is the
// current record of the instance.
func (r *record) withNews(p *pin, now *record) *record {
	r.maintenance, r.guest.Action = now.maintenance, now.guest.Action
	r.guest.Spot = p.spotWith(r.guest.Spot, now.guest.Spot)
	return r
}

// spotWith returns the interruption for the crawl: that of now, with the leaves that first or any
// later answer of the crawl had and now lacks.
func (p *pin) spotWith(first, now *seedbed.Spot) *seedbed.Spot {
	told := p.spot.Load()
	if told == nil {
		told = first
	}
	s := keepListed(told, now)
	p.spot.Store(s)
	return s
}

// keepListed returns now with the leaves of told that now lacks.
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
	// A termination has two leaves; any other action has one of them.
	if notice(told) && (!notice(&s) || told.Action == "terminate" && s.Action != "terminate") {
		s.Action, s.Time = told.Action, told.Time
	}
	return &s
}

// notice reports whether an action other than a rebalance was announced.
func notice(s *seedbed.Spot) bool { return s != nil && s.Action != "" && !s.Time.IsZero() }
