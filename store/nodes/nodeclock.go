package nodes

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// One control host records when a node was seen and since when it is cordoned; another one, whose
// clock may be off, evaluates these times. So they are stored by the clock that leases are measured
// by, which all hosts share. Times that are read are converted to this process's clock, and times
// that are written are converted from it. Converting keeps the age of a moment, however far apart
// the clocks are.

// here holds the same moment in two clocks: the one that leases are measured by, and this
// process's. own has its monotonic reading, so that ages stay right if the wall clock is set.
type here struct{ shared, own time.Time }

// nodeClocks reads both clocks.
func (s *Store) nodeClocks(ctx context.Context, tx *sqldb.Tx) (h here, err error) {
	h.shared, err = s.db.LeaseClock(ctx, tx)
	own := time.Now().UTC() // read last, so that no node appears silent for longer than it was
	h.own = own.Add(-time.Duration(own.Nanosecond() % int(time.Microsecond)))
	return h, err
}

// from converts a moment from the shared clock to this process's. The zero time stays zero.
func (h here) from(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return h.own.Add(at.Sub(h.shared))
}

// to converts a moment from this process's clock to the shared one.
func (h here) to(at time.Time) time.Time { return h.shared.Add(at.Sub(h.own)) }

// nodesHere converts Seen of the nodes to this process's clock.
func (s *Store) nodesHere(ctx context.Context, tx *sqldb.Tx, nodes ...*seedbed.Node) error {
	h, err := s.nodeClocks(ctx, tx)
	for _, n := range nodes {
		n.Seen = h.from(n.Seen)
	}
	return err
}
