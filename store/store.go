package store

import "context"

// expireLeases ends the leases of an earlier process. The file's lock proves that none of their
// owners is alive, and that process may have had a different clock.
func (db *DB) expireLeases(ctx context.Context) error {
	return db.update(ctx, "expire leases", func(tx *Tx) error {
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return err
		}
		if err := exec(ctx, tx, `UPDATE endpoint SET owner = '', lease_until = NULL WHERE owner <> ''`); err != nil {
			return err
		}
		return exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE state IN ('running', 'undoing') AND lease_until > $1`, micros(clock))
	})
}

// limits bounds what would otherwise grow without end.
type limits struct {
	tombstones  int // kept by each node for followers that resume
	page        int // changes of a feed page that is not a snapshot
	guestEvents int // kept of one instance, the newest
	guestMargin int // how many more there may be before they are cut
	guests      int // instances whose events are counted at the same time
}
