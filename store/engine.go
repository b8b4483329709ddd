package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"seedbed"
)

// ClaimJob takes the oldest job that is queued, or whose lease has run out, for
// owner and the time of the lease, under an epoch one higher than before. A
// queued job becomes running, and one that was cancelled undoing; Attempts
// grows when a job is taken over. It returns nil when there is nothing to do.
func (db *DB) ClaimJob(ctx context.Context, owner string, lease time.Duration) (*seedbed.Job, error) {
	if owner == "" || lease <= 0 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "claiming a job needs an owner and a lease, not %q and %s", owner, lease)
	}
	var claimed *seedbed.Job
	err := db.update(ctx, "claim job", func(tx *sql.Tx) error {
		claimed = nil
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return err
		}
		j, err := scanJob(tx.QueryRowContext(ctx, db.dialect.claim, owner, micros(clock.Add(lease)), micros(clock), micros(now())))
		if errors.Is(err, sql.ErrNoRows) {
			return errUnchanged
		}
		if err != nil {
			return err
		}
		claimed = &j
		if j.Epoch > 1 || j.State != seedbed.JobRunning {
			return nil
		}
		return emit(ctx, tx, ofJob(seedbed.EventJobStarted, j))
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// RenewLease extends the lease to that long from now, and tells whether someone
// asked for the job to be cancelled.
func (db *DB) RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error) {
	if lease <= 0 {
		return false, seedbed.Errorf(seedbed.ErrInvalid, "a lease of %s is none", lease)
	}
	err = db.update(ctx, "renew lease", func(tx *sql.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		cancel = j.Cancel
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return err
		}
		return exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE id = $2`, micros(clock.Add(lease)), ref.ID)
	})
	return cancel && err == nil, err
}

// Release gives a job back unfinished: another may take it over at once, which
// does not count as an attempt.
func (db *DB) Release(ctx context.Context, ref seedbed.JobRef) error {
	return db.update(ctx, "release job", func(tx *sql.Tx) error {
		j, err := hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return err
		}
		return exec(ctx, tx, `UPDATE job SET owner = '', lease_until = $1, attempts = $2 WHERE id = $3`, micros(clock), max(j.Attempts-1, 0), ref.ID)
	})
}

// CancelJob marks a job that can be undone: its holder learns of it with the next
// renewal of its lease, and undoes it. Asking again changes nothing. A job that
// has ended, an import whose image is complete, or a rebuild that removes the
// former disks, gives ErrConflict, and a job
// that only goes forward ErrInvalid.
func (db *DB) CancelJob(ctx context.Context, id seedbed.JobID) error {
	return db.update(ctx, "cancel job", func(tx *sql.Tx) error {
		n, err := affect(ctx, tx, `UPDATE job SET cancel = 1 WHERE id = $1 AND cancel = 0 AND kind NOT IN ($2, $3, $4) AND `+live,
			id, seedbed.JobRemove, seedbed.JobSnapshotRemove, seedbed.JobImageRemove) // JobKind.Forward
		if err != nil {
			return err
		}
		j, err := readJob(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case j.Kind.Forward():
			return seedbed.Errorf(seedbed.ErrInvalid, "job %s is a %s job, which cannot be cancelled", id.Short(), j.Kind)
		case j.State.Terminal():
			return seedbed.Errorf(seedbed.ErrConflict, "job %s has ended already: it is %s", id.Short(), j.State)
		case n == 0:
			return errUnchanged
		}
		if err := uncancellable(j); err != nil {
			return err
		}
		if j.Kind == seedbed.JobImport {
			if img, err := image(ctx, tx, j.Subject, seedbed.ErrConflict); err != nil || img.State == seedbed.ImageActive {
				return orConflict(err, "job %s has made its image already", id.Short())
			}
		}
		return addEvent(ctx, tx, id, seedbed.Event{Level: "warn", Stage: j.Stage, Msg: "cancel requested", Progress: j.Progress})
	})
}

// orConflict is err, or when there is none an ErrConflict with that text.
func orConflict(err error, format string, args ...any) error {
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrConflict, format, args...)
	}
	return err
}
