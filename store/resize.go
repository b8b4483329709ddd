package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
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

// acceptRename completes the row of a job that gives an instance, which must be off, another name.
func acceptRename(ctx context.Context, tx *sqldb.Tx, j *seedbed.Job) error {
	if err := acceptVolumeJob(ctx, tx, j); err != nil {
		return err
	}
	var spec seedbed.RenameJob
	if err := readSpec(*j, &spec); err != nil {
		return err
	}
	inst, err := instances.ReadOne(ctx, tx, j.Instance)
	if err != nil {
		return err
	}
	if err := inst.CheckRename(spec.To); err != nil {
		return err
	}
	if err := instances.NameFree(ctx, tx, inst.Project, spec.To); err != nil {
		return err
	}
	spec.From = inst.Name
	j.Spec, err = json.Marshal(spec)
	return err
}

// renamed gives the instance of a job the name that the job has given its domain. Nothing undoes that: another instance may have the former
// name at once. It may be repeated.
func renamed(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, name string) error {
	if j.Kind != seedbed.JobRename {
		return seedbed.Errorf(seedbed.ErrInvalid, "job %s renames nothing: it is a %s job", j.ID.Short(), j.Kind)
	}
	inst, err := instances.ReadOne(ctx, tx, j.Instance)
	if err != nil || inst.Name == name {
		return err
	}
	if err := instances.NameFree(ctx, tx, inst.Project, name); err != nil {
		return err
	}
	return instances.Rename(ctx, tx, j.Instance, name)
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

// acceptVolumeChange completes the row of a job that changes a volume, or makes a file of it. A growth must fit the quotas of the
// volume's token and project.
func acceptVolumeChange(ctx context.Context, b *groupcommit.Batch, j *seedbed.Job) error {
	spec, err := volumeSpec(*j)
	if err != nil {
		return err
	}
	if j.Instance != "" {
		if err := acceptVolumeJob(ctx, b.Tx, j); err != nil {
			return err
		}
	}
	v, err := instances.LockProjectVolume(ctx, b.Tx, j.Project, spec.Name)
	if err != nil {
		return err
	}
	switch {
	case v.Instance != j.Instance:
		return seedbed.Errorf(seedbed.ErrConflict, "volume %q was attached or detached in the meantime: request it again", v.Name)
	case v.Instance == "":
		if err := idleVolume(ctx, b.Tx, v); err != nil {
			return err
		}
		j.Subject = v.Name
	}
	if v.State != seedbed.VolumeFree && v.State != seedbed.VolumeAttached {
		return seedbed.Errorf(seedbed.ErrConflict, "volume %q is %s: only one that is free or attached can be changed", v.Name, v.State)
	}
	done := seedbed.VolumeJob{ID: v.ID, Name: v.Name, Size: spec.Size}
	switch j.Kind {
	case seedbed.JobVolumeResize:
		err = v.CheckLarger(spec.Size)
		if err == nil {
			err = holdVolume(ctx, b, v, spec.Size-v.Size)
		}
	case seedbed.JobVolumeMove:
		err = acceptMove(ctx, b, j, v, &done, *spec.Place)
	case seedbed.JobVolumeDownload:
		done.Download = cmp.Or(spec.Download, &seedbed.VolumeDownload{})
	default:
		done.Was, done.Limits = &v.IOLimits, &seedbed.IOLimits{}
		*done.Limits, err = spec.Set.Of(v.IOLimits)
	}
	if err != nil {
		return err
	}
	j.Pool = v.Pool
	if j.Spec, err = json.Marshal(done); err != nil {
		return err
	}
	return instances.BeginVolumeChange(ctx, b.Tx, v, spec.Size)
}

// resumableChange prepares a volume for a job that changes it and is resumed. It checks the quota for one that becomes larger.
func resumableChange(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, v seedbed.ProjectVolume) error {
	spec, err := volumeSpec(j)
	if err != nil {
		return err
	}
	if spec.Size > v.Size {
		if err := holdVolume(ctx, groupcommit.Alone(tx), v, spec.Size-v.Size); err != nil {
			return err
		}
	}
	return instances.BeginVolumeChange(ctx, tx, v, spec.Size)
}

// SetVolumeSize records the size that a job has given its volume. It may be repeated.
func (db *DB) SetVolumeSize(ctx context.Context, ref seedbed.JobRef, size seedbed.Bytes) error {
	return db.changeVolume(ctx, ref, seedbed.JobVolumeResize, func(tx *sqldb.Tx, v seedbed.ProjectVolume) error {
		if size <= v.Size {
			return sqldb.ErrUnchanged
		}
		return instances.SetVolumeSize(ctx, tx, v, size)
	})
}

// SetVolumeLimits records how fast the volume of a job may be, from which the job has taken limits or to which it has given some. It may be
// repeated.
func (db *DB) SetVolumeLimits(ctx context.Context, ref seedbed.JobRef, l seedbed.IOLimits) error {
	return db.changeVolume(ctx, ref, seedbed.JobVolumeSet, func(tx *sqldb.Tx, v seedbed.ProjectVolume) error {
		if v.IOLimits == l {
			return sqldb.ErrUnchanged
		}
		return instances.SetVolumeLimits(ctx, tx, v, l)
	})
}

// changeVolume changes the volume of a job of that kind.
func (db *DB) changeVolume(
	ctx context.Context, ref seedbed.JobRef, kind seedbed.JobKind, change func(*sqldb.Tx, seedbed.ProjectVolume) error,
) error {
	return db.sql.Update(ctx, "change volume", func(tx *sqldb.Tx) error {
		j, err := jobs.Hold(ctx, tx, ref)
		if err != nil {
			return err
		}
		if j.Kind != kind || j.State != seedbed.JobRunning && j.State != seedbed.JobUndoing {
			return seedbed.Errorf(seedbed.ErrConflict, "job %s is a %s job and %s, and not a %s job that runs", j.ID.Short(), j.Kind, j.State, kind)
		}
		v, err := lockVolume(ctx, tx, j, nil)
		if err == nil {
			err = v.CheckHolder(j)
		}
		if err != nil {
			return err
		}
		return change(tx, v)
	})
}
