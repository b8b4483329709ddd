package store

import (
	"context"
	"database/sql"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// acceptResize completes the row of a resize job. A change of vCPUs or memory requires a stopped
// domain, and every change must fit the quotas of the instance's token and project.
func acceptResize(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	if err := acceptVolumeJob(ctx, tx, j); err != nil {
		return err
	}
	var spec seedbed.ResizeSpec
	if err := readSpec(*j, &spec); err != nil {
		return err
	}
	inst, err := instances.ReadOne(ctx, tx, j.Instance)
	if err != nil {
		return err
	}
	next, err := spec.Of(inst)
	if err != nil {
		return err
	}
	if spec.Machine() && inst.State != seedbed.InstanceStopped {
		return seedbed.Errorf(seedbed.ErrConflict,
			"instance %q is %s: vcpus and memory can be changed while it is stopped (seedbed vm stop); a disk can grow while it runs",
			inst.Name, inst.State)
	}
	return holdQuotas(ctx, groupcommit.Alone(tx), next)
}

// given returns n, or NULL if n is zero.
func given(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// resized records what a stage of a resize job has changed. It may be repeated.
func resized(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, s seedbed.ResizeSpec) error {
	if j.Kind != seedbed.JobResize {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s resizes nothing: it is a %s job", j.ID.Short(), j.Kind)
	}
	n, err := sqldb.Affect(ctx, tx, `
		UPDATE instance SET vcpus = COALESCE($1, vcpus), memory = COALESCE($2, memory), revision = revision + 1, changed = $3 WHERE id = $4`,
		given(int64(s.VCPUs)), given(int64(s.Memory)), sqldb.Micros(sqldb.Now()), j.Instance)
	if err != nil || n == 0 {
		return sqldb.OrConflict(err, "job %s: its instance no longer exists", j.ID.Short())
	}
	if s.Size == 0 {
		return nil
	}
	n, err = sqldb.Affect(ctx, tx, `UPDATE volume SET size = $1 WHERE instance = $2 AND pool = $3 AND name = $4 AND size <= $1`,
		int64(s.Size), j.Instance, s.Pool, s.Volume)
	if err != nil || n == 0 {
		return sqldb.OrConflict(err, "job %s: its instance has no volume %s in pool %s that could have grown to %s",
			j.ID.Short(), sqldb.Clean(s.Volume, 80), sqldb.Clean(s.Pool, 80), s.Size)
	}
	return nil
}

// grown returns the instance as an accepted resize job leaves it. The job may have done a part of
// that already.
func grown(inst seedbed.Instance, j seedbed.Job) (seedbed.Instance, error) {
	var spec seedbed.ResizeSpec
	if err := readSpec(j, &spec); err != nil {
		return inst, err
	}
	if next, err := spec.Of(inst); err == nil {
		return next, nil
	}
	return inst, nil // it has that size already
}

// resumableResize checks the quota for a resize that is resumed.
func resumableResize(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	inst, err := instances.ReadOne(ctx, tx, j.Instance)
	if err != nil {
		return err
	}
	next, err := grown(inst, j)
	if err != nil {
		return err
	}
	return holdQuotas(ctx, groupcommit.Alone(tx), next)
}
