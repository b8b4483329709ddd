package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"seedbed"
)

// acceptSwitch completes the row of a job that stops, starts, reboots or
// rebuilds an instance, and writes into its input what the instance was.
func acceptSwitch(ctx context.Context, tx *Tx, j *seedbed.Job) error {
	// The row is locked, so that of two jobs one sees the other.
	var state seedbed.InstanceState
	err := tx.QueryRowContext(ctx, `UPDATE instance SET revision = revision WHERE id = $1 RETURNING name, node, state`, j.Instance).Scan(&j.Subject, &j.Node, &state)
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
		return seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: want one that is running or stopped to %s it", j.Subject, state, j.Kind)
	}
	return noteWas(j, state)
}

// noteWas writes the instance's state into the input of a job that may have to go back to it.
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

// readSpec reads the input of a job; none leaves what is there.
func readSpec(j seedbed.Job, into any) error {
	if len(j.Spec) == 0 {
		return nil
	}
	if err := json.Unmarshal(j.Spec, into); err != nil {
		return seedbed.Errorf(seedbed.ErrInvalid, "the input of %s job %s is not readable: %v", j.Kind, j.ID.Short(), err)
	}
	return nil
}
