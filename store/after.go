package store

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptAfter checks the job that j is to run after, and blocks j until that job ends.
func acceptAfter(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	j.Blocked = false
	if j.Kind.Forward() { // a removal finds the job that it follows itself
		j.After = ""
	}
	if j.After == "" {
		return nil
	}
	// The row is locked, so that the end of that job sees j waiting for it.
	missing := seedbed.Errorf(seedbed.ErrInvalid, "job %q, which is to come before, does not exist", sqldb.Clean(string(j.After), 80))
	before, err := sqldb.LockOne(ctx, tx, jobs.ScanJob, missing,
		`UPDATE job SET epoch = epoch WHERE id = $1 RETURNING `+jobs.JobColumns, j.After)
	switch {
	case err != nil:
		return err
	case before.Project != j.Project:
		return missing
	case !before.State.Terminal():
		j.Blocked = true
	case before.State != seedbed.JobSucceeded:
		return &seedbed.Error{Kind: seedbed.ErrConflict, Holder: before.ID,
			Msg: fmt.Sprintf("job %s, which is to succeed before, has ended: it is %s", before.ID.Short(), before.State)}
	}
	return nil
}

// acceptPool sets the pool of a job that is not a create.
func acceptPool(ctx context.Context, tx *sqldb.Tx, a *seedbed.Acceptance) (err error) {
	j := &a.Job
	switch j.Kind {
	case seedbed.JobStart, seedbed.JobStop, seedbed.JobReboot, seedbed.JobMigrate, // no pool, or already set
		seedbed.JobOVA, seedbed.JobOVARemove, seedbed.JobBackupVerify, seedbed.JobBackupRemove,
		seedbed.JobVolumeAdd, seedbed.JobVolumeRemove, seedbed.JobVolumeResize, seedbed.JobVolumeSet, seedbed.JobVolumeMove,
		seedbed.JobVolumeDownload,
		seedbed.JobAttach, seedbed.JobDetach,
		seedbed.JobNICAdd, seedbed.JobNICRemove, seedbed.JobNICSet, seedbed.JobSet, seedbed.JobRename,
		seedbed.JobFailover:
	case seedbed.JobImport:
		j.Pool = a.Image.Pool
	case seedbed.JobImageRemove:
		j.Pool, err = sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT pool FROM image WHERE name = $1`, j.Subject)
	default:
		j.Pool, err = sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT pool FROM volume WHERE instance = $1 ORDER BY idx LIMIT 1`, j.Instance)
	}
	return err
}

// giveUp ends a job that no engine has started. A job with an upload has a file at the worker, so
// giveUp only cancels it: the engine that claims it undoes it.
func (db *DB) giveUp(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, why string) error {
	var spec seedbed.ImportSpec
	if j.Kind == seedbed.JobImport {
		if err := readSpec(j, &spec); err != nil {
			return err
		}
	}
	var volume seedbed.VolumeJob
	if j.Kind == seedbed.JobVolumeAdd {
		if err := readSpec(j, &volume); err != nil {
			return err
		}
	}
	if j.Kind == seedbed.JobOVA || spec.Upload != "" || volume.Upload != nil {
		return sqldb.Exec(ctx, tx, `UPDATE job SET cancel = 1, blocked = 0, error = $1 WHERE id = $2`, sqldb.Clean(why, sqldb.MaxText), j.ID)
	}
	return db.end(ctx, tx, j, seedbed.JobResult{State: seedbed.JobRolledBack, Error: why, Drop: j.Kind.Makes()})
}

// endDependents unblocks the jobs that waited for j if j succeeded. Otherwise it ends them, and in
// turn the jobs that wait for them. A removal or a forced stop that has cancelled j runs however j
// ended.
func (db *DB) endDependents(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	waiting, err := sqldb.List(ctx, tx, jobs.ScanJob,
		`UPDATE job SET epoch = epoch WHERE after = $1 AND blocked = 1 RETURNING `+jobs.JobColumns, j.ID)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		if w.Kind == seedbed.JobRemove {
			if err := db.afterMaking(ctx, tx, w, j); err != nil {
				return err
			}
			continue
		}
		if j.State != seedbed.JobSucceeded && !follows(w, j) {
			if err := db.giveUp(ctx, tx, w, fmt.Sprintf("job %s, which was to succeed before, is %s", j.ID.Short(), j.State)); err != nil {
				return err
			}
			continue
		}
		had := "succeeded"
		if j.State != seedbed.JobSucceeded {
			had = fmt.Sprintf("ended: it is %s", j.State)
		}
		if err := sqldb.Exec(ctx, tx, `UPDATE job SET blocked = 0 WHERE id = $1`, w.ID); err != nil {
			return err
		}
		jobs.AddEvent(tx, w.ID, seedbed.Event{Level: "info", Msg: fmt.Sprintf("job %s has %s", j.ID.Short(), had)})
	}
	return nil
}
