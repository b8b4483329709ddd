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
	if spec.From.Pool != "" && spec.From.Pool != from.Pool {
		return 0, seedbed.Errorf(seedbed.ErrConflict, "volume %q was moved to another pool in the meantime: request it again", from.Name)
	}
	return cmp.Or(v.Size, from.Size), from.CheckCopy(from.Pool, v.Size)
}

// sourceOf returns a volume that is to be copied, and locks it, or the instance whose disk it is. No job may work on that.
func sourceOf(ctx context.Context, tx *sqldb.Tx, s seedbed.VolumeSource) (v seedbed.ProjectVolume, err error) {
	missing := seedbed.Errorf(seedbed.ErrNotFound, "volume %q no longer exists", s.Name)
	if s.ID != "" {
		v, err = instances.LockVolumeOf(ctx, tx, s.ID, missing)
		if err != nil {
			return v, err
		}
		v.Name = s.Name
		other, err := moving(ctx, tx, v)
		if err == nil && other.ID != "" {
			err = inHandsOf(other, "volume", v.Name)
		}
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

// copying returns the oldest live job that makes a copy or an image of a volume, or none.
func copying(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume) (seedbed.Job, error) {
	all, err := sqldb.List(ctx, tx, jobs.ScanJob,
		`SELECT `+jobs.JobColumns+` FROM job WHERE project = $1 AND kind IN ($2, $3) AND `+jobs.Live+` ORDER BY created`, v.Project,
		seedbed.JobVolumeAdd, seedbed.JobImport)
	for _, j := range all {
		var spec struct { // what the inputs of both kinds have
			From *seedbed.VolumeSource `json:"from"`
		}
		if len(j.Spec) > 0 && readSpec(j, &spec) == nil && spec.From != nil && spec.From.ID == v.ID {
			return j, nil
		}
	}
	return seedbed.Job{}, err
}

// checkImageSource checks the volume that an import makes its image from, if it makes it from one.
func checkImageSource(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, image seedbed.Image) error {
	var spec seedbed.ImportSpec
	if err := readSpec(j, &spec); err != nil || spec.From == nil {
		return err
	}
	from, err := sourceOf(ctx, tx, *spec.From)
	switch {
	case err != nil:
		return err
	case from.Project != j.Project:
		return seedbed.Errorf(seedbed.ErrNotFound, "volume %q does not exist", spec.From.Name)
	}
	return from.CheckCopy(image.Pool, 0)
}

// checkCloned checks the disks that a job makes copies of for a new instance, if it does: they are those of an instance of the same project
// that no job works on.
func checkCloned(ctx context.Context, tx *sqldb.Tx, a seedbed.Acceptance) error {
	if a.Job.Kind != seedbed.JobClone {
		return nil
	}
	var spec seedbed.CloneJob
	if err := readSpec(a.Job, &spec); err != nil {
		return err
	}
	if len(spec.Disks) == 0 || len(spec.Disks) != len(a.Instance.Volumes) {
		return seedbed.Errorf(seedbed.ErrInvalid, "a clone of %d disks has %d", len(spec.Disks), len(a.Instance.Volumes))
	}
	for i, s := range spec.Disks {
		from, err := sourceOf(ctx, tx, s)
		switch {
		case err != nil:
			return err
		case from.Project != a.Instance.Project:
			return seedbed.Errorf(seedbed.ErrNotFound, "instance %q does not exist", spec.From)
		}
		if err := from.CheckCopy(a.Instance.Volumes[i].Pool, a.Instance.Volumes[i].Size); err != nil {
			return err
		}
	}
	return nil
}

// VolumeOwners returns the IDs in the tags of the volumes of projects, and of the copies that jobs generalise for images.
func (db *DB) VolumeOwners(ctx context.Context) (all []seedbed.InstanceID, err error) {
	if all, err = db.instanceStore.VolumeOwners(ctx); err != nil {
		return nil, err
	}
	return all, db.sql.View(ctx, "list copies for images", func(tx *sqldb.Tx) error {
		imports, err := sqldb.List(ctx, tx, jobs.ScanJob, `SELECT `+jobs.JobColumns+` FROM job WHERE kind = $1 AND `+jobs.Live, seedbed.JobImport)
		for _, j := range imports {
			var spec seedbed.ImportSpec
			if err := readSpec(j, &spec); err == nil && spec.Generalised != nil {
				all = append(all, spec.Generalised.Owner)
			}
		}
		return err
	})
}
