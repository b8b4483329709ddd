package store

import (
	"context"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// acceptMove completes the input of a job that takes a volume to another pool. The volume must fit the quotas for that pool.
func acceptMove(
	ctx context.Context, b *groupcommit.Batch, j *seedbed.Job, v seedbed.ProjectVolume, spec *seedbed.VolumeJob, to seedbed.VolumePlace,
) error {
	var inst seedbed.Instance
	if v.Instance != "" {
		var err error
		if inst, err = instances.ReadOne(ctx, b.Tx, v.Instance); err != nil {
			return err
		}
		other, err := copying(ctx, b.Tx, v)
		if err == nil && other.ID != "" {
			err = inHandsOf(other, "volume", v.Name)
		}
		if err != nil {
			return err
		}
	}
	if err := v.CheckMove(to.Pool, inst); err != nil {
		return err
	}
	node, err := pinnedTo(ctx, b.Tx, j.Node)(to.Pool)
	if err != nil {
		return err
	}
	if err := holdMove(ctx, b, v, to.Pool); err != nil {
		return err
	}
	was := v.Place()
	spec.Former, spec.Place = &was, &seedbed.VolumePlace{Pool: to.Pool, Node: node}
	return nil
}

// holdMove returns ErrForbidden if a volume, which the quotas for all pools together count already, exceeds one for another pool.
func holdMove(ctx context.Context, b *groupcommit.Batch, v seedbed.ProjectVolume, pool string) error {
	wants := seedbed.Use{DiskIn: map[string]seedbed.Bytes{pool: v.Size}}
	return holdUse(ctx, b, seedbed.Instance{Project: v.Project, Token: v.Token}, wants)
}

// SetVolumePlace records that the volume of a job that moves it is in another pool now, or in its former one again. It may be repeated. It
// returns ErrForbidden if a quota for the other pool was used up in the meantime.
func (db *DB) SetVolumePlace(ctx context.Context, ref seedbed.JobRef, to seedbed.VolumePlace) error {
	return db.changeVolume(ctx, ref, seedbed.JobVolumeMove, func(tx *sqldb.Tx, v seedbed.ProjectVolume) error {
		if v.Place() == to {
			return sqldb.ErrUnchanged
		}
		j, err := jobs.Hold(ctx, tx, ref)
		if err == nil && j.State == seedbed.JobRunning {
			err = holdMove(ctx, groupcommit.Alone(tx), v, to.Pool)
		}
		if err != nil {
			return err
		}
		return instances.SetVolumePlace(ctx, tx, v, to)
	})
}

// moving returns the live job that takes a volume, which an instance has, to another pool, or none.
func moving(ctx context.Context, tx *sqldb.Tx, v seedbed.ProjectVolume) (seedbed.Job, error) {
	if v.Instance == "" {
		return seedbed.Job{}, nil // such a volume is changing
	}
	all, err := sqldb.List(ctx, tx, jobs.ScanJob, `SELECT `+jobs.JobColumns+` FROM job WHERE instance = $1 AND kind = $2 AND `+jobs.Live,
		v.Instance, seedbed.JobVolumeMove)
	for _, j := range all {
		if spec, err := volumeSpec(j); err == nil && spec.ID == v.ID {
			return j, nil
		}
	}
	return seedbed.Job{}, err
}
