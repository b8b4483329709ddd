package store

import (
	"context"
	"time"

	"seedbed"
)

// When a node was seen, and since when it is cordoned, is noted by one control host and
// weighed by another, whose clock may be off. So these times are kept by the clock that
// leases are measured by, which all of them share: what is told from here is moved to this
// process's clock, and what comes in is moved from it. A moment is as long ago by the one
// as by the other, however far they are apart.

// here is the clock that leases are measured by, and this process's at the same moment,
// which has its monotonic reading: it tells what is past although it is set meanwhile.
type here struct{ shared, own time.Time }

// nodeClocks reads both clocks.
func (db *DB) nodeClocks(ctx context.Context, tx *Tx) (h here, err error) {
	h.shared, err = db.leaseClock(ctx, tx)
	own := time.Now().UTC() // the later one: nobody seems to be silent for longer than it was
	h.own = own.Add(-time.Duration(own.Nanosecond() % int(time.Microsecond)))
	return h, err
}

// from is a moment of the shared clock by this process's; zero stays zero.
func (h here) from(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return h.own.Add(at.Sub(h.shared))
}

// to is a moment of this process's clock by the shared one.
func (h here) to(at time.Time) time.Time { return h.shared.Add(at.Sub(h.own)) }

// nodesHere moves to this process's clock when nodes were seen.
func (db *DB) nodesHere(ctx context.Context, tx *Tx, nodes ...*seedbed.Node) error {
	h, err := db.nodeClocks(ctx, tx)
	for _, n := range nodes {
		n.Seen = h.from(n.Seen)
	}
	return err
}
