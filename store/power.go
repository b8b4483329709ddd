package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptRestore completes the row of a job that restores a snapshot.
func acceptRestore(ctx context.Context, tx *sqldb.Tx, a *seedbed.Acceptance) error {
	if err := acceptSwitch(ctx, tx, &a.Job); err != nil {
		return err
	}
	return instances.Confirmed(ctx, tx, *a)
}

// acceptSwitch completes the row of a job that starts, stops, reboots, migrates, rebuilds or restores an instance, and
// records the instance's state in the job's input.
func acceptSwitch(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	graceful, err := overtaken(ctx, tx, *j)
	if err != nil {
		return err
	}
	// Lock the row, so that concurrent jobs see each other.
	var state seedbed.InstanceState
	err = tx.QueryRowContext(ctx, `UPDATE instance SET revision = revision WHERE id = $1 RETURNING project, name, node, state`,
		j.Instance).Scan(&j.Project, &j.Subject, &j.Node, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", j.Instance)
	case err != nil:
		return err
	}
	if err := idleBut(ctx, tx, j.Instance, graceful); err != nil {
		return err
	}
	if graceful != "" {
		j.After, j.Blocked = graceful, true
	}
	if state != seedbed.InstanceRunning && state != seedbed.InstanceStopped {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: it must be running or stopped to %s it", j.Subject, state, j.Kind.Verb())
	}
	return noteWas(j, state)
}

// overtaken returns the job that a forced stop overtakes: a stop or reboot of its instance that
// asks the guest to shut down. It is empty if there is none. The job's row is locked before the
// instance's, as its owner does.
func overtaken(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) (seedbed.JobID, error) {
	if force, err := forced(j); err != nil || !force || j.After != "" {
		return "", err
	}
	others, err := sqldb.List(ctx, tx, jobs.ScanJob,
		`UPDATE job SET epoch = epoch WHERE instance = $1 AND kind IN ($2, $3) AND `+jobs.Live+` RETURNING `+jobs.JobColumns,
		j.Instance, seedbed.JobStop, seedbed.JobReboot)
	if err != nil || len(others) == 0 {
		return "", err
	}
	for _, other := range others {
		if force, err := forced(other); err != nil || force {
			return "", cmp.Or(err, inHandsOf(other, "instance", other.Subject))
		}
	}
	return others[0].ID, nil
}

// forced reports whether a job is a stop that does not ask the guest to shut down.
func forced(j seedbed.Job) (bool, error) {
	var spec seedbed.PowerSpec
	if j.Kind != seedbed.JobStop {
		return false, nil
	}
	err := readSpec(j, &spec)
	return spec.Force, err
}

// noteWas records the instance's state in the input of a job that may have to restore it: as the member was of its PowerSpec.
func noteWas(j *seedbed.Job, was seedbed.InstanceState) (err error) {
	switch j.Kind {
	case seedbed.JobStop, seedbed.JobReboot, seedbed.JobSnapshotRestore, seedbed.JobMigrate, seedbed.JobRebuild:
	default:
		return nil
	}
	spec := map[string]json.RawMessage{}
	if err := readSpec(*j, &spec); err != nil {
		return err
	}
	if spec["was"], err = json.Marshal(was); err == nil {
		j.Spec, err = json.Marshal(spec)
	}
	return err
}

// readSpec decodes the input of a job. If there is none, into stays unchanged.
func readSpec(j seedbed.Job, into any) error {
	if len(j.Spec) == 0 {
		return nil
	}
	if err := json.Unmarshal(j.Spec, into); err != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "the input of %s job %s is not readable: %v", j.Kind, j.ID.Short(), err)
	}
	return nil
}
