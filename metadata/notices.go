package metadata

import "seedbed"

// Notices are what clients poll for: events/*, spot/*, instance-action and
// autoscaling/target-lifecycle-state. They come from the current state even during a crawl, which
// otherwise sees its pinned state, because a notice of two minutes must not be a minute late. What
// the crawl has listed stays until it ends, so that the client can fetch it.

// withNotices updates r, which no other goroutine uses, to what a crawl under p sees while now is the
// current record of the instance.
func (r *record) withNotices(p *pin, now *record) *record {
	r.maintenance, r.guest.Action = now.maintenance, now.guest.Action
	if state := targetState(now); state != "" {
		p.target.Store(&state)
	}
	if state := p.target.Load(); state != nil {
		r.guest.Options.TargetState = *state
	}
	r.guest.Spot = p.spotWith(r.guest.Spot, now.guest.Spot)
	return r
}

// spotWith returns the interruption for the crawl: that of now, with the leaves that first or any
// later answer of the crawl had and now lacks.
func (p *pin) spotWith(first, now *seedbed.Spot) *seedbed.Spot {
	listed := p.spot.Load()
	if listed == nil {
		listed = first
	}
	s := keepListed(listed, now)
	p.spot.Store(s)
	return s
}

// keepListed returns now with the leaves of told that now lacks.
func keepListed(listed, now *seedbed.Spot) *seedbed.Spot {
	switch {
	case listed == nil:
		return now
	case now == nil:
		return listed
	}
	s := *now
	if s.Rebalance.IsZero() {
		s.Rebalance = listed.Rebalance
	}
	// A termination has two leaves; any other action has one of them.
	if notice(listed) && (!notice(&s) || listed.Action == "terminate" && s.Action != "terminate") {
		s.Action, s.Time = listed.Action, listed.Time
	}
	return &s
}

// notice reports whether an action other than a rebalance was announced.
func notice(s *seedbed.Spot) bool { return s != nil && s.Action != "" && !s.Time.IsZero() }
