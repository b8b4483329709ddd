package store

import (
	"context"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// CancelJob marks a job to be cancelled; its owner soon sees that, at its next stage boundary at
// the latest, and undoes it. A job that has not started ends at once, and a job that waits for its
// next attempt is undone at once. Cancelling a job twice changes nothing. CancelJob returns
// ErrConflict for a job that has ended, an import whose image is complete, or a rebuild that
// removes the old disks. It returns ErrInvalid for a job that cannot be undone. The job as it was must
// pass the checks.
func (db *DB) CancelJob(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) error {
	return db.sql.Update(ctx, "cancel job", func(tx *sqldb.Tx) error {
		// Lock the row, so that the job is neither claimed nor ended before the commit.
		j, err := sqldb.One(ctx, tx, jobs.ScanJob, seedbed.Errorf(seedbed.ErrNotFound, "job %q does not exist", sqldb.Clean(string(id), 80)),
			`UPDATE job SET epoch = epoch WHERE id = $1 RETURNING `+jobs.JobColumns, id)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(j, checks); err != nil {
			return err
		}
		switch {
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
				return sqldb.OrConflict(err, "job %s has made its image already", id.Short())
			}
		}
		if j.Kind == seedbed.JobOVA {
			if held, err := catalogue.HoldOVA(ctx, tx, j.Subject, catalogue.NoOVA(j.Subject)); err != nil || held.State == seedbed.ImageActive {
				return sqldb.OrConflict(err, "job %s has made its images already", id.Short())
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
	jobs.AddEvent(tx, j.ID, seedbed.Event{Level: "warn", Stage: j.Stage, Msg: said, Progress: j.Progress})
	if j.Epoch == 0 {
		return db.giveUp(ctx, tx, j, "cancelled")
	}
	clock, err := db.sql.LeaseClock(ctx, tx)
	if err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE job SET lease_until = $1 WHERE id = $2 AND owner = '' AND lease_until > $1`, sqldb.Micros(clock), j.ID)
}

// uncancelled returns ErrConflict if the running job is to be cancelled. Each commit that takes a job
// further looks at that in its own transaction, so that a cancel is either refused or obeyed.
func uncancelled(j seedbed.Job) error {
	if j.State == seedbed.JobRunning && j.Cancel {
		return seedbed.Errorf(seedbed.ErrConflict, "job %s was asked to be cancelled", j.ID.Short())
	}
	return nil
}
