package store

import (
	"context"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// ResumeJob queues a job again that failed and was not undone. The job continues at the stage that
// failed, with a new count of attempts. ResumeJob returns ErrConflict if the job ended otherwise,
// ErrNotFound if its instance or image no longer exists, and ErrInUse if another job works on that;
// Holder is the other job.
// The job as it was must pass the checks.
func (db *DB) ResumeJob(ctx context.Context, id seedbed.JobID, checks ...func(seedbed.Job) error) (j seedbed.Job, err error) {
	err = db.sql.Update(ctx, "resume job", func(tx *sqldb.Tx) error {
		// Lock the row, so that the second of two concurrent calls sees what the first did.
		j, err = sqldb.One(ctx, tx, jobs.ScanJob, seedbed.Errorf(seedbed.ErrNotFound, "job %q does not exist", sqldb.Clean(string(id), 80)),
			`UPDATE job SET epoch = epoch WHERE id = $1 RETURNING `+jobs.JobColumns, id)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(j, checks); err != nil {
			return err
		}
		if !j.State.CanBecome(seedbed.JobQueued) {
			return sqldb.OrConflict(nil, "job %s is %s: only one that has failed, and was not undone, can be resumed", j.ID.Short(), j.State)
		}
		if err := resumable(ctx, tx, j); err != nil {
			return err
		}
		if err := holdJobs(ctx, groupcommit.Alone(tx), j.Project); err != nil {
			return err
		}
		stage := j.Stage
		if stage == "" {
			stage = "its first"
		}
		jobs.AddEvent(tx, id, seedbed.Event{Level: "info", Stage: j.Stage, Msg: "resumed at stage " + stage})
		j, err = jobs.ScanJob(tx.QueryRowContext(ctx,
			`UPDATE job SET state = $1, error = '', cancel = 0, progress = 0, attempts = 0, owner = '', lease_until = NULL, ended = NULL
			WHERE id = $2 RETURNING `+jobs.JobColumns, seedbed.JobQueued, id))
		if err != nil {
			return err
		}
		return outbox.Emit(ctx, tx, jobs.EventOf(seedbed.EventJobAccepted, j))
	})
	return j, err
}

// resumable restores the state that the subject of a failed job has while that job runs.
func resumable(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "%s no longer exists, so %s job %s cannot be resumed", j.Subject, j.Kind, j.ID.Short())
	if j.Kind == seedbed.JobOVA || j.Kind == seedbed.JobOVARemove {
		return resumableOVA(ctx, tx, j, missing)
	}
	if ofVolume(j) {
		return resumableVolume(ctx, tx, j, missing)
	}
	if j.Kind == seedbed.JobFailover {
		return acceptFailover(ctx, tx, &j)
	}
	if j.Kind == seedbed.JobBackupVerify || j.Kind == seedbed.JobBackupRemove {
		return nil
	}
	if j.Instance == "" {
		return resumableImage(ctx, tx, j, missing)
	}
	if err := sqldb.Exec(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, j.Instance); err != nil {
		return err
	}
	if err := idle(ctx, tx, j.Instance); err != nil {
		return err
	}
	if err := sameName(ctx, tx, j); err != nil {
		return err
	}
	switch j.Kind {
	case seedbed.JobCreate, seedbed.JobAdopt, seedbed.JobBackupRestore, seedbed.JobClone:
		return instances.SetState(ctx, tx, j.Instance, seedbed.InstanceProvisioning, missing)
	case seedbed.JobRemove:
		return instances.SetState(ctx, tx, j.Instance, seedbed.InstanceRemoving, missing)
	}
	state, err := sqldb.One(ctx, tx, sqldb.Value[seedbed.InstanceState], missing, `SELECT state FROM instance WHERE id = $1`, j.Instance)
	if err == nil && state != seedbed.InstanceRunning && state != seedbed.InstanceStopped {
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: it must be running or stopped to continue %s job %s",
			j.Subject, state, j.Kind, j.ID.Short())
	}
	switch {
	case err != nil:
		return err
	case j.Kind == seedbed.JobResize:
		return resumableResize(ctx, tx, j)
	case j.Kind == seedbed.JobSet:
		return resumableSet(ctx, tx, j)
	case j.Kind == seedbed.JobRebuild:
		return resumableRebuild(ctx, tx, j)
	case j.Kind == seedbed.JobMigrate:
		return resumableMigrate(ctx, tx, j)
	case j.Kind == seedbed.JobSnapshotRestore:
		later, err := laterJob(ctx, tx, j)
		if err == nil && later.ID != "" { // the former content that the job has kept may be old
			err = seedbed.Errorf(seedbed.ErrConflict, "%s job %s has worked on instance %q since: restore the snapshot by a new job",
				later.Kind, later.ID.Short(), j.Subject)
		}
		return err
	case j.Kind == seedbed.JobAttach || j.Kind == seedbed.JobDetach || changesVolume(j.Kind):
		return resumableAttachment(ctx, tx, j, missing)
	case j.Kind.OfNIC():
		return resumableNIC(ctx, tx, j)
	}
	return nil
}

// sameName returns ErrConflict if the instance of a job was renamed since by another one: the job would give its domain the former name.
func sameName(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	now, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT name FROM instance WHERE id = $1`, j.Instance)
	if err != nil || now == "" || now == j.Subject {
		return err
	}
	if j.Kind == seedbed.JobRename {
		var spec seedbed.RenameJob
		if err := readSpec(j, &spec); err != nil || now == spec.To {
			return err
		}
	}
	return seedbed.Errorf(seedbed.ErrConflict, "instance %q has been renamed to %q since: request it again", j.Subject, now)
}

func resumableImage(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, missing error) error {
	state := seedbed.ImageImporting
	if j.Kind == seedbed.JobImageRemove {
		state = seedbed.ImageRemoving
	}
	if err := catalogue.SetImageState(ctx, tx, j.Subject, state, missing); err != nil {
		return err
	}
	if err := idleImage(ctx, tx, j.Subject); err != nil {
		return err
	}
	if j.Kind == seedbed.JobImageRemove {
		return unusedImage(ctx, tx, j.Subject, true)
	}
	by, err := sqldb.One(ctx, tx, sqldb.Value[seedbed.JobID], missing, `SELECT job FROM claim WHERE kind = $1 AND key = $2`,
		catalogue.ImageClaim, j.Subject)
	if err == nil && by != j.ID {
		err = missing // another import made an image of that name
	}
	return err
}

// idleImage returns ErrInUse if a job works on the image.
func idleImage(ctx context.Context, tx *sqldb.Tx, name string) error {
	return idleObject(ctx, tx, "image", name, seedbed.JobImport, seedbed.JobImageRemove)
}

// idleObject returns ErrInUse if a job of one of these kinds works on the object of that name. label
// is the message's word for it.
func idleObject(ctx context.Context, tx *sqldb.Tx, label, name string, makes, removes seedbed.JobKind) error {
	other, err := sqldb.One(ctx, tx, jobs.ScanJob, nil,
		`SELECT `+jobs.JobColumns+` FROM job WHERE subject = $1 AND kind IN ($2, $3) AND `+jobs.Live+` ORDER BY created LIMIT 1`,
		name, makes, removes)
	if err != nil || other.ID == "" {
		return err
	}
	return inHandsOf(other, label, name)
}
