package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptRemove completes the row of a removal. If the instance is still being made, the removal
// follows the job that makes it, which is then cancelled.
func acceptRemove(ctx context.Context, tx *sqldb.Tx, a *seedbed.Acceptance) error {
	j := &a.Job
	// Lock the job's row before the instance's, like the owner of the job does.
	making, err := sqldb.One(ctx, tx, jobs.ScanJob, nil,
		`UPDATE job SET epoch = epoch WHERE instance = $1 AND kind IN ($2, $3, $4) AND `+jobs.Live+` RETURNING `+jobs.JobColumns,
		j.Instance, seedbed.JobCreate, seedbed.JobBackupRestore, seedbed.JobClone)
	if err != nil {
		return err
	}
	missing := seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", j.Instance)
	if err := instances.SetState(ctx, tx, j.Instance, seedbed.InstanceRemoving, missing); err != nil {
		return err
	}
	if err := idleBut(ctx, tx, j.Instance, making.ID); err != nil {
		return err
	}
	if err := acceptLeft(ctx, tx, j); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT project, name, node FROM instance WHERE id = $1`, j.Instance).
		Scan(&j.Project, &j.Subject, &j.Node); err != nil {
		return err
	}
	j.After, j.Blocked = making.ID, making.ID != ""
	return instances.Confirmed(ctx, tx, *a)
}

// acceptLeft records which disks a removal removes besides those of the instance, or instead of them if they are kept. It returns
// ErrConflict if they are to be kept and may not exist: the job that made them did not succeed, or a removal did not keep them.
func acceptLeft(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	var how seedbed.Removal
	if err := readSpec(*j, &how); err != nil {
		return err
	}
	if !how.KeepDisks {
		return reclaim(ctx, tx, j.Instance)
	}
	others, err := sqldb.List(ctx, tx, jobs.ScanJob,
		`SELECT `+jobs.JobColumns+` FROM job WHERE instance = $1 AND kind IN ($2, $3, $4, $5) ORDER BY created`,
		j.Instance, seedbed.JobCreate, seedbed.JobBackupRestore, seedbed.JobClone, seedbed.JobRemove)
	if err != nil {
		return err
	}
	for _, other := range others {
		var before seedbed.Removal
		whole := other.State == seedbed.JobSucceeded
		if other.Kind == seedbed.JobRemove {
			if err := readSpec(other, &before); err != nil {
				return err
			}
			whole = before.KeepDisks
		}
		if !whole {
			return seedbed.Errorf(seedbed.ErrConflict,
				"the disks of instance %q cannot be kept, because some may not exist: %s job %s is %s; remove it with its disks",
				other.Subject, other.Kind, other.ID.Short(), other.State)
		}
	}
	if how.Left, err = leftBy(ctx, tx, j.Instance); err != nil {
		return err
	}
	j.Spec, err = json.Marshal(how)
	return err
}

// follows reports whether next cancels the job before, and runs however that one ends: a removal, or
// the forced stop of an instance that a job shuts down. Any other job waits for one of another
// instance, or of none.
func follows(next, before seedbed.Job) bool {
	return next.Kind == seedbed.JobRemove || next.Kind == seedbed.JobStop && next.Instance == before.Instance
}

// cancelFollowed cancels the job that the blocked job next follows, if it follows one, and returns that
// job and the state of next. It must come after all other writes of the acceptance, because a job that
// no engine has started ends now, and a removal may end with it.
func (db *DB) cancelFollowed(ctx context.Context, tx *sqldb.Tx, next seedbed.Job) (seedbed.JobID, seedbed.JobState, error) {
	before, err := jobs.ReadJob(ctx, tx, next.After)
	if err != nil || !follows(next, before) {
		return "", next.State, err
	}
	if err := uncancellable(before); err != nil {
		return "", "", err
	}
	if !before.Cancel {
		said := fmt.Sprintf("cancel requested by the removal of the instance (job %s)", next.ID.Short())
		if next.Kind == seedbed.JobStop {
			said = fmt.Sprintf("superseded by stop job %s, which switches the instance off at once", next.ID.Short())
			before.Error = said
			if err := sqldb.Exec(ctx, tx, `UPDATE job SET error = $1 WHERE id = $2`, said, before.ID); err != nil {
				return "", "", err
			}
		}
		if err := db.cancel(ctx, tx, before, said); err != nil {
			return "", "", err
		}
	}
	next, err = jobs.ReadJob(ctx, tx, next.ID)
	return before.ID, next.State, err
}

var errGone = errors.New("the instance no longer exists")

// afterMaking unblocks a removal when the job that made its instance ends, however it ended. If
// that job has removed the instance, the removal ends too.
func (db *DB) afterMaking(ctx context.Context, tx *sqldb.Tx, removal, made seedbed.Job) error {
	err := instances.SetState(ctx, tx, removal.Instance, seedbed.InstanceRemoving, errGone)
	gone := errors.Is(err, errGone)
	if err != nil && !gone {
		return err
	}
	e := seedbed.Event{Level: "info", Msg: fmt.Sprintf("job %s has ended: it is %s", made.ID.Short(), made.State)}
	if gone {
		e.Msg += ", and nothing of the instance is left to remove"
	}
	jobs.AddEvent(tx, removal.ID, e)
	if gone {
		return db.end(ctx, tx, removal, seedbed.JobResult{State: seedbed.JobSucceeded})
	}
	return sqldb.Exec(ctx, tx, `UPDATE job SET blocked = 0 WHERE id = $1`, removal.ID)
}
