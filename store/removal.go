package store

import (
	"context"
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
		`UPDATE job SET epoch = epoch WHERE instance = $1 AND kind = $2 AND `+jobs.Live+` RETURNING `+jobs.JobColumns,
		j.Instance, seedbed.JobCreate)
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
	if err := reclaim(ctx, tx, j.Instance); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT name, node FROM instance WHERE id = $1`, j.Instance).Scan(&j.Subject, &j.Node); err != nil {
		return err
	}
	j.After, j.Blocked = making.ID, making.ID != ""
	return instances.Confirmed(ctx, tx, *a)
}

// cancelFollowed cancels the job that a removal follows, and returns the removal's state. It must
// come after all other writes of the removal, because a job that no engine has started ends now,
// and the removal may end with it.
func (db *DB) cancelFollowed(ctx context.Context, tx *sqldb.Tx, removal seedbed.Job) (seedbed.JobState, error) {
	making, err := jobs.ReadJob(ctx, tx, removal.After)
	if err == nil {
		err = uncancellable(making)
	}
	if err == nil && !making.Cancel {
		err = db.cancel(ctx, tx, making, fmt.Sprintf("cancel requested by the removal of the instance (job %s)", removal.ID.Short()))
	}
	if err != nil {
		return "", err
	}
	removal, err = jobs.ReadJob(ctx, tx, removal.ID)
	return removal.State, err
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
