package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"seedbed"
	"seedbed/store/sqldb"
)

// acceptSwitch completes the row of a job that starts, stops, reboots or rebuilds an instance, and
// records the instance's state in the job's input.
func acceptSwitch(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	// Lock the row, so that concurrent jobs see each other.
	var state seedbed.InstanceState
	err := tx.QueryRowContext(ctx, `UPDATE instance SET revision = revision WHERE id = $1 RETURNING name, node, state`,
		j.Instance).Scan(&j.Subject, &j.Node, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", j.Instance)
	case err != nil:
		return err
	}
	if err := idle(ctx, tx, j.Instance); err != nil {
		return err
	}
	if state != seedbed.InstanceRunning && state != seedbed.InstanceStopped {
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: it must be running or stopped to %s it", j.Subject, state, j.Kind)
	}
	return noteWas(j, state)
}

// noteWas records the instance's state in the input of a job that may have to restore it.
func noteWas(j *seedbed.Job, was seedbed.InstanceState) (err error) {
	switch j.Kind {
	case seedbed.JobStop, seedbed.JobReboot:
		var spec seedbed.PowerSpec
		if err := readSpec(*j, &spec); err != nil {
			return err
		}
		spec.Was = was
		j.Spec, err = json.Marshal(spec)
	case seedbed.JobRebuild:
		var spec seedbed.RebuildSpec
		if err := readSpec(*j, &spec); err != nil {
			return err
		}
		spec.Was = was
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
