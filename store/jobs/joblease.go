package jobs

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// RenewLease extends the lease to end at lease from now, and reports whether the job is to be
// cancelled.
func (s *Store) RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error) {
	if lease <= 0 {
		return false, seedbed.Errorf(seedbed.ErrInvalid, "a lease of %s is too short: expected more than 0", lease)
	}
	err = s.writes.Own(ctx, "renew lease", func(tx *sqldb.Tx) error {
		j, err := Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		cancel = j.Cancel
		clock, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE id = $2`, sqldb.Micros(clock.Add(lease)), ref.ID)
	})
	return cancel && err == nil, err
}

// Release gives a job back unfinished. Another engine may take it over at once, which does not
// count as an attempt.
func (s *Store) Release(ctx context.Context, ref seedbed.JobRef) error {
	return s.Postpone(ctx, ref, 0, false)
}

// Postpone gives a job back unfinished. Another engine may take it over after wait, or as soon as
// the job is cancelled. The current attempt does not count unless spent is set.
func (s *Store) Postpone(ctx context.Context, ref seedbed.JobRef, wait time.Duration, spent bool) error {
	return s.db.Update(ctx, "give back job", func(tx *sqldb.Tx) error {
		j, err := Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		clock, err := s.db.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		until, attempts := clock, j.Attempts
		if !j.Cancel && wait > 0 {
			until = clock.Add(wait)
		}
		if !spent {
			attempts = max(attempts-1, 0)
		}
		return sqldb.Exec(ctx, tx, `UPDATE job SET owner = '', lease_until = $1, attempts = $2 WHERE id = $3`,
			sqldb.Micros(until), attempts, ref.ID)
	})
}

// ExpireLeases ends all leases of jobs at clock, when none of their owners can be alive.
func ExpireLeases(ctx context.Context, tx *sqldb.Tx, clock time.Time) error {
	return sqldb.Exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE state IN ('running', 'undoing') AND lease_until > $1`,
		sqldb.Micros(clock))
}
