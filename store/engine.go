package store

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

// RenewLease extends the lease to end at lease from now, and reports whether the job is to be
// cancelled.
func (db *DB) RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error) {
	if lease <= 0 {
		return false, seedbed.Errorf(seedbed.ErrInvalid, "a lease of %s is none", lease)
	}
	err = db.writes.Own(ctx, "renew lease", func(tx *sqldb.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		cancel = j.Cancel
		clock, err := db.sql.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE id = $2`, sqldb.Micros(clock.Add(lease)), ref.ID)
	})
	return cancel && err == nil, err
}

// Release gives a job back unfinished. Another engine may take it over at once, which does not
// count as an attempt.
func (db *DB) Release(ctx context.Context, ref seedbed.JobRef) error {
	return db.Postpone(ctx, ref, 0, false)
}

// Postpone gives a job back unfinished. Another engine may take it over after wait, or as soon as
// the job is cancelled. The current attempt does not count unless spent is set.
func (db *DB) Postpone(ctx context.Context, ref seedbed.JobRef, wait time.Duration, spent bool) error {
	return db.sql.Update(ctx, "give back job", func(tx *sqldb.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		clock, err := db.sql.LeaseClock(ctx, tx)
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
		return sqldb.Exec(ctx, tx, `UPDATE job SET owner = '', lease_until = $1, attempts = $2 WHERE id = $3`, sqldb.Micros(until), attempts, ref.ID)
	})
}

// CancelJob marks a job to be cancelled; its owner soon sees that and undoes it. A job that has not
// started ends at once, and a job that waits for its next attempt is undone at once. Cancelling a
// job twice changes nothing. CancelJob returns ErrConflict for a job that has ended, an import
// whose image is complete, or a rebuild that removes the old disks. It returns ErrInvalid for a job
// that cannot be undone.
func (db *DB) CancelJob(ctx context.Context, id seedbed.JobID) error {
	return db.sql.Update(ctx, "cancel job", func(tx *sqldb.Tx) error {
		// Lock the row, so that the job is neither claimed nor ended before the commit.
		j, err := sqldb.One(ctx, tx, scanJob, seedbed.Errorf(seedbed.ErrNotFound, "job %q does not exist", sqldb.Clean(string(id), 80)),
			`UPDATE job SET epoch = epoch WHERE id = $1 RETURNING `+jobColumns, id)
		switch {
		case err != nil:
			return err
		case j.Kind.Forward():
			return seedbed.Errorf(seedbed.ErrInvalid, "job %s is a %s job, which cannot be cancelled", id.Short(), j.Kind)
		case j.State.Terminal():
			return seedbed.Errorf(seedbed.ErrConflict, "job %s has ended already: it is %s", id.Short(), j.State)
		case j.Cancel:
			return sqldb.ErrUnchanged
		}
		if err := uncancellable(j); err != nil {
			return err
		}
		if j.Kind == seedbed.JobImport {
			if img, err := catalogue.ReadImage(ctx, tx, j.Subject, seedbed.ErrConflict); err != nil || img.State == seedbed.ImageActive {
				return orConflict(err, "job %s has made its image already", id.Short())
			}
		}
		if j.Kind == seedbed.JobOVA {
			if held, err := catalogue.HoldOVA(ctx, tx, j.Subject, catalogue.NoOVA(j.Subject)); err != nil || held.State == seedbed.ImageActive {
				return orConflict(err, "job %s has made its images already", id.Short())
			}
		}
		return db.cancel(ctx, tx, j, "cancel requested")
	})
}

// cancel marks a job whose row is locked, and adds said to its history.
func (db *DB) cancel(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, said string) error {
	if err := sqldb.Exec(ctx, tx, `UPDATE job SET cancel = 1 WHERE id = $1`, j.ID); err != nil {
		return err
	}
	j.Cancel = true
	addEvent(tx, j.ID, seedbed.Event{Level: "warn", Stage: j.Stage, Msg: said, Progress: j.Progress})
	if j.Epoch == 0 {
		return db.giveUp(ctx, tx, j, "cancelled")
	}
	clock, err := db.sql.LeaseClock(ctx, tx)
	if err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE id = $2 AND owner = '' AND lease_until > $1`, sqldb.Micros(clock), j.ID)
}

// orConflict returns err, or an ErrConflict with the given text if err is nil.
func orConflict(err error, format string, args ...any) error {
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrConflict, format, args...)
	}
	return err
}
