package store

import (
	"context"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// UndoAgain repeats the undo of a job that left something behind, for the stages that did. It
// returns ErrConflict if the job ended otherwise or another job has worked on its instance since,
// ErrNotFound if its instance or image no longer exists, and ErrInUse while a job works on it.
// The job as it was must pass the checks.
func (db *DB) UndoAgain(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) (j seedbed.Job, err error) {
	err = db.sql.Update(ctx, "undo job again", func(tx *sqldb.Tx) error {
		// Lock the row, so that the second of two concurrent calls sees what the first did.
		j, err = sqldb.One(ctx, tx, jobs.ScanJob, seedbed.Errorf(seedbed.ErrNotFound, "job %q does not exist", sqldb.Clean(string(id), 80)),
			`UPDATE job SET epoch = epoch WHERE id = $1 RETURNING `+jobs.JobColumns, id)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(j, checks); err != nil {
			return err
		}
		if j.State != seedbed.JobIncomplete {
			return sqldb.OrConflict(nil, "job %s is %s: only one that was undone and left something behind can be undone again",
				j.ID.Short(), j.State)
		}
		if err := undoable(ctx, tx, j); err != nil {
			return err
		}
		if err := sqldb.Exec(ctx, tx, `UPDATE job_stage SET state = $1 WHERE job = $2 AND state = $3`,
			seedbed.StageIntent, id, seedbed.StageOrphans); err != nil {
			return err
		}
		clock, err := db.sql.LeaseClock(ctx, tx)
		if err != nil {
			return err
		}
		jobs.AddEvent(tx, id, seedbed.Event{Level: "info", Msg: "resumed to undo what was left behind"})
		j, err = jobs.ScanJob(tx.QueryRowContext(ctx,
			`UPDATE job SET state = $1, progress = 0, attempts = 0, owner = '', lease_until = $2, ended = NULL,
			stage = COALESCE((SELECT name FROM job_stage WHERE job = $3 AND state = $4 ORDER BY n DESC LIMIT 1), '')
			WHERE id = $3 RETURNING `+jobs.JobColumns, seedbed.JobUndoing, sqldb.Micros(clock), id, seedbed.StageIntent))
		return err
	})
	return j, err
}

// laterJob returns the last job on the same instance that was accepted after j, or none.
func laterJob(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) (seedbed.Job, error) {
	return sqldb.One(ctx, tx, jobs.ScanJob, nil,
		`SELECT `+jobs.JobColumns+` FROM job WHERE instance = $1 AND id <> $2 AND (created > $3 OR created = $3 AND id > $2)
		ORDER BY created DESC, id DESC LIMIT 1`, j.Instance, j.ID, sqldb.Micros(j.Created))
}

// undoable returns an error if undoing the job could remove what now belongs to another.
func undoable(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	if j.Instance != "" {
		later, err := laterJob(ctx, tx, j)
		if err == nil && later.ID != "" && later.State.Terminal() {
			err = sqldb.OrConflict(nil, "%s job %s has worked on instance %q since: what job %s left behind is no longer removed",
				later.Kind, later.ID.Short(), j.Subject, j.ID.Short())
		}
		if err != nil {
			return err
		}
	}
	missing := seedbed.Errorf(seedbed.ErrNotFound, "%s no longer exists, nor does what job %s left behind", j.Subject, j.ID.Short())
	switch {
	case j.Kind == seedbed.JobOVA:
		return resumableOVA(ctx, tx, j, missing)
	case ofVolume(j):
		return resumableVolume(ctx, tx, j, missing)
	case j.Instance == "":
		return resumableImage(ctx, tx, j, missing)
	}
	touched, err := sqldb.Affect(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, j.Instance)
	if err == nil && touched == 0 {
		err = missing
	}
	if err == nil {
		err = idle(ctx, tx, j.Instance)
	}
	if err == nil && j.Kind == seedbed.JobMigrate {
		err = resumableMigrate(ctx, tx, j)
	}
	if err == nil && j.Kind.Makes() {
		err = instances.SetState(ctx, tx, j.Instance, seedbed.InstanceProvisioning, missing)
	}
	return err
}
