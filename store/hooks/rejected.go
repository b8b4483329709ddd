package hooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/store/sqldb"
)

// maxRejected is how many rejections are kept of each hook.
const maxRejected = 50

// RecordRejections adds to the counts of webhooks whose sender was not accepted. It keeps the newest
// of each hook, so that strangers cannot fill the database.
func (s *Store) RecordRejections(ctx context.Context, all []seedbed.Rejection) error {
	all = slices.Clone(all)
	for i := range all {
		all[i].Peer, all[i].Reason = sqldb.Clean(all[i].Peer, 80), sqldb.Clean(all[i].Reason, 200)
	}
	slices.SortFunc(all, func(a, b seedbed.Rejection) int { // each host locks rows in this order
		return cmp.Or(cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Reason, b.Reason))
	})
	return s.db.Update(ctx, "record rejected deliveries", func(tx *sqldb.Tx) error {
		for i, r := range all {
			err := sqldb.Exec(ctx, tx, `
				INSERT INTO delivery_rejected (hook, peer, reason, times, first_at, last_at) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (hook, peer, reason) DO UPDATE SET times = delivery_rejected.times + excluded.times,
					last_at = excluded.last_at`,
				r.Hook, r.Peer, r.Reason, r.Times, sqldb.Micros(r.First), sqldb.Micros(r.Last))
			if err == nil && (i+1 == len(all) || all[i+1].Hook != r.Hook) {
				err = sqldb.Exec(ctx, tx, `DELETE `+s.freeRejected(`
					hook = $1 AND (peer, reason) NOT IN (
						SELECT peer, reason FROM delivery_rejected WHERE hook = $1 ORDER BY last_at DESC, peer, reason LIMIT $2)`), r.Hook, maxRejected)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// freeRejected selects the rejections that fulfil a condition and that no other host is writing: a
// deletion that waited for one could be waited for itself. The next deletion finds what this one
// leaves.
func (s *Store) freeRejected(where string) string {
	return `FROM delivery_rejected WHERE (hook, peer, reason) IN (
		SELECT hook, peer, reason FROM delivery_rejected WHERE ` + where + s.db.Dialect.LockFree + `)`
}

// Rejections returns the counts of a query of webhooks whose sender was not accepted, the latest first.
func (s *Store) Rejections(ctx context.Context, q seedbed.RejectionQuery) (all []seedbed.Rejection, err error) {
	w := &sqldb.Where{}
	ofProject(w, q.Project)
	if q.Hook != "" {
		w.And("hook = %s", q.Hook)
	}
	if !q.Since.IsZero() {
		w.And("last_at >= %s", sqldb.Micros(q.Since))
	}
	if a := q.After; a.Hook != "" {
		w.And("(last_at < %s OR last_at = %s AND (hook, peer, reason) > (%s, %s, %s))",
			sqldb.Micros(a.Last), sqldb.Micros(a.Last), a.Hook, a.Peer, a.Reason)
	}
	query := `SELECT hook, peer, reason, times, first_at, last_at FROM delivery_rejected WHERE ` + w.String() +
		fmt.Sprintf(` ORDER BY last_at DESC, hook, peer, reason LIMIT $%d`, len(w.Args)+1)
	err = s.db.View(ctx, "list rejected deliveries", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (v seedbed.Rejection, err error) {
			err = r.Scan(&v.Hook, &v.Peer, &v.Reason, &v.Times, sqldb.ToTime(&v.First), sqldb.ToTime(&v.Last))
			return v, err
		}, query, append(w.Args, sqldb.UpTo(q.Limit))...)
		return err
	})
	return all, err
}
