package store

import (
	"context"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// matched returns an error if the request that asks for a job is about another version of the object
// that the job is to work on. It locks the object's row, but only for a request that names a version:
// the owner of a running job locks the job's row first. If that causes a deadlock, one of the
// transactions runs again.
func matched(ctx context.Context, tx *sqldb.Tx, asker *seedbed.Change, j seedbed.Job) error {
	if asker == nil || asker.Match == nil {
		return nil
	}
	var object any
	var err error
	switch j.Kind {
	case seedbed.JobOVARemove:
		object, err = catalogue.LockOVA(ctx, tx, j.Subject)
	case seedbed.JobVolumeRemove:
		object, err = instances.LockProjectVolume(ctx, tx, j.Project, j.Subject)
	case seedbed.JobVolumeResize, seedbed.JobVolumeSet, seedbed.JobVolumeMove, seedbed.JobVolumeDownload:
		var spec seedbed.VolumeJob
		if spec, err = volumeSpec(j); err != nil {
			return err
		}
		object, err = instances.LockProjectVolume(ctx, tx, j.Project, spec.Name)
	case seedbed.JobImageRemove:
		object, err = catalogue.LockImage(ctx, tx, j.Subject)
	default:
		object, err = sqldb.LockOne(ctx, tx, func(r sqldb.Row) (i seedbed.Instance, err error) {
			err = r.Scan(&i.ID, &i.Revision)
			return i, err
		}, seedbed.Errorf(seedbed.ErrNotFound, "instance %s does not exist", j.Instance),
			`UPDATE instance SET revision = revision WHERE id = $1 RETURNING id, revision`, j.Instance)
	}
	if err != nil {
		return err
	}
	return asker.Match(object)
}
