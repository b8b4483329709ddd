package feed

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

const leaseColumns = `mac, addr, instance, until`

func scanLease(r sqldb.Row) (l seedbed.Lease, err error) {
	err = r.Scan(sqldb.ToText(&l.MAC), sqldb.ToText(&l.Addr), &l.Instance, sqldb.ToTime(&l.Until))
	return l, err
}

// Leases returns the DHCP leases of the instances in a scope as last reported, sorted by MAC, including
// those that have expired. A lease of an instance that is not known is only in the scope of all projects.
func (s *Store) Leases(ctx context.Context, in seedbed.Scope) (all []seedbed.Lease, err error) {
	query, args := `SELECT `+leaseColumns+` FROM lease`, []any(nil)
	if project, one := in.One(); one {
		query, args = query+` WHERE instance IN (SELECT id FROM instance WHERE project = $1)`, []any{project}
	}
	err = s.db.View(ctx, "list leases", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanLease, query+` ORDER BY mac`, args...)
		return err
	})
	return all, err
}

// ExpiredLeases returns the DHCP leases that have expired at now.
func (s *Store) ExpiredLeases(ctx context.Context, now time.Time) (all []seedbed.Lease, err error) {
	err = s.db.View(ctx, "list expired leases", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanLease, `SELECT `+leaseColumns+` FROM lease WHERE until <= $1 ORDER BY mac`, now.UnixMicro())
		return err
	})
	return all, err
}

// DropLeases deletes the leases that ExpiredLeases returns, and returns how many there were.
func (s *Store) DropLeases(ctx context.Context, now time.Time) (int, error) {
	return s.db.Drop(ctx, "drop leases", `DELETE FROM lease WHERE until <= $1`, now)
}

// DropLeasesOf deletes the leases of an instance.
func DropLeasesOf(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM lease WHERE instance = $1`, id)
}

// DropLeaseOf deletes the lease of a NIC that is deleted or goes to another network, by its MAC address.
func DropLeaseOf(ctx context.Context, tx *sqldb.Tx, mac seedbed.MAC) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM lease WHERE mac = $1`, mac.String())
}
