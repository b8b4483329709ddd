package store

import (
	"cmp"
	"context"
	"slices"

	"seedbed"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// copySize returns the size of a new volume that becomes a copy, as its job says; v.Size if it becomes none.
func copySize(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, v seedbed.ProjectVolume) (seedbed.Bytes, error) {
	if len(j.Spec) == 0 {
		return v.Size, nil
	}
	spec, err := volumeSpec(j)
	if err != nil || spec.From == nil {
		return v.Size, err
	}
	from, err := sourceOf(ctx, tx, *spec.From)
	switch {
	case err != nil:
		return 0, err
	case from.Project != j.Project:
		return 0, seedbed.Errorf(seedbed.ErrNotFound, "volume %q does not exist", spec.From.Name)
	}
	return cmp.Or(v.Size, from.Size), from.CheckCopy(v.Pool, v.Size)
}

// sourceOf returns a volume that is to be copied, and locks it, or the instance whose disk it is. No job may work on that.
func sourceOf(ctx context.Context, tx *sqldb.Tx, s seedbed.VolumeSource) (v seedbed.ProjectVolume, err error) {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "volume %q no longer exists", s.Name)
	if s.ID != "" {
		v, err = instances.LockVolumeOf(ctx, tx, s.ID, missing)
		v.Name = s.Name
		return v, err
	}
	if err := sqldb.Exec(ctx, tx, `UPDATE instance SET revision = revision WHERE id = $1`, s.Owner); err != nil {
		return v, err
	}
	if err := idle(ctx, tx, s.Owner); err != nil {
		return v, err
	}
	inst, err := instances.ReadOne(ctx, tx, s.Owner)
	if err != nil {
		return v, err
	}
	at := slices.IndexFunc(inst.Volumes, func(d seedbed.Volume) bool { return d.Name == s.Volume })
	if at < 0 {
		return v, missing
	}
	d := inst.Volumes[at]
	return seedbed.ProjectVolume{Project: inst.Project, Name: s.Name, Pool: d.Pool, Size: d.Size, State: seedbed.VolumeAttached}, nil
}

// copying returns the oldest live job that makes a copy of a volume, or none.
func copying(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume) (seedbed.Job, error) {
	all, err := sqldb.List(ctx, tx, jobs.ScanJob,
		`SELECT `+jobs.JobColumns+` FROM job WHERE project = $1 AND kind = $2 AND `+jobs.Live+` ORDER BY created`, v.Project,
		seedbed.JobVolumeAdd)
	for _, j := range all {
		if spec, err := volumeSpec(j); err == nil && spec.From != nil && spec.From.ID == v.ID {
			return j, nil
		}
	}
	return seedbed.Job{}, err
}
