package store

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// insertScriptRun stores the script run of a new job.
func insertScriptRun(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, run seedbed.ScriptRun) error {
	return sqldb.Exec(ctx, tx, `INSERT INTO job_script (job, run) VALUES ($1, $2)`, job, sqldb.AsJSON(run))
}

// ScriptRun returns the script run of a job. It returns ErrNotFound for a job that has ended or has
// no script.
func (db *DB) ScriptRun(ctx context.Context, id seedbed.JobID) (run seedbed.ScriptRun, err error) {
	err = db.sql.View(ctx, "read the job's script", func(tx *sqldb.Tx) error {
		missing := seedbed.Errorf(seedbed.ErrNotFound, "job %s runs no script", id.Short())
		run, err = sqldb.One(ctx, tx, func(r sqldb.Row) (run seedbed.ScriptRun, err error) {
			err = r.Scan(sqldb.ToJSON(&run))
			return run, err
		}, missing, `SELECT run FROM job_script WHERE job = $1`, id)
		return err
	})
	return run, err
}

// ScriptDomain returns the domain XML that a script made for the instance. It returns ErrNotFound
// for an instance that was not made by a script.
func (db *DB) ScriptDomain(ctx context.Context, id seedbed.InstanceID) (xml string, err error) {
	err = db.sql.View(ctx, "read the script's domain", func(tx *sqldb.Tx) error {
		missing := seedbed.Errorf(seedbed.ErrNotFound, "instance %s was made by no script", sqldb.Clean(string(id), 80))
		xml, err = sqldb.One(ctx, tx, sqldb.Value[string], missing, `SELECT xml FROM instance_script WHERE instance = $1`, id)
		return err
	})
	return xml, err
}

// SetScriptDomain stores the domain XML that the script of a running create job made for its
// instance, replacing an earlier one. The XML of a rebuild job becomes the instance's when the
// instance is exchanged.
func (db *DB) SetScriptDomain(ctx context.Context, ref seedbed.JobRef, xml string) error {
	return db.sql.Update(ctx, "keep the script's domain", func(tx *sqldb.Tx) error {
		j, err := scripted(ctx, tx, ref, seedbed.JobRunning)
		if err != nil {
			return err
		}
		if j.Kind == seedbed.JobRebuild {
			return changeRun(ctx, tx, j.ID, func(run *seedbed.ScriptRun) error { run.XML = xml; return nil })
		}
		return putScriptDomain(ctx, tx, j.Instance, xml)
	})
}

// AddVolume adds a volume as the last one of the instance of a running create job, or of those that
// a rebuild job makes. It may be repeated. It returns ErrExists if another volume of the pool has
// the name, ErrForbidden if the volume exceeds the quota of the instance's token, and ErrConflict
// while the job is undone.
func (db *DB) AddVolume(ctx context.Context, ref seedbed.JobRef, v seedbed.Volume) error {
	return db.sql.Update(ctx, "add volume", func(tx *sqldb.Tx) error {
		j, err := scripted(ctx, tx, ref, seedbed.JobRunning)
		if err != nil {
			return err
		}
		if j.Kind == seedbed.JobRebuild {
			return addNext(ctx, tx, j, v)
		}
		inst, err := instances.ReadOne(ctx, tx, j.Instance)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(inst.Volumes, func(w seedbed.Volume) bool { return w.Pool == v.Pool && w.Name == v.Name }) {
			return sqldb.ErrUnchanged
		}
		if len(inst.Volumes) >= seedbed.MaxVolumes {
			return seedbed.Errorf(seedbed.ErrInvalid, "instance %q has %d volumes: no instance has more", inst.Name, len(inst.Volumes))
		}
		v.Index = 0
		for _, w := range inst.Volumes {
			v.Index = max(v.Index, w.Index+1)
		}
		if err := holdDisk(ctx, tx, inst, v); err != nil {
			return err
		}
		inst.Volumes = []seedbed.Volume{v}
		if err := instances.CheckImages(ctx, groupcommit.Alone(tx), inst); err != nil {
			return err
		}
		return instances.InsertVolume(ctx, tx, inst.ID, v)
	})
}

// DropVolume removes a volume from the instance of a create job, or from those that a rebuild job
// makes, and renumbers the volumes after it. It does nothing if there is no such volume.
func (db *DB) DropVolume(ctx context.Context, ref seedbed.JobRef, pool, name string) error {
	return db.sql.Update(ctx, "drop volume", func(tx *sqldb.Tx) error {
		j, err := scripted(ctx, tx, ref, seedbed.JobRunning, seedbed.JobUndoing)
		if err != nil {
			return err
		}
		if j.Kind == seedbed.JobRebuild {
			return dropNext(ctx, tx, j, pool, name)
		}
		inst, err := instances.ReadOne(ctx, tx, j.Instance)
		if err != nil {
			return err
		}
		n, err := sqldb.Affect(ctx, tx, `DELETE FROM volume WHERE pool = $1 AND name = $2 AND instance = $3`, pool, name, j.Instance)
		if err == nil && n == 0 {
			err = sqldb.ErrUnchanged
		}
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(inst.Volumes, func(v seedbed.Volume) bool { return v.Pool == pool && v.Name == name })
		for i, v := range left { // in order, so that indexes stay unique
			if v.Index == i {
				continue
			}
			if err := sqldb.Exec(ctx, tx, `UPDATE volume SET idx = $1 WHERE pool = $2 AND name = $3`, i, v.Pool, v.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// endScript deletes the script run of a job, which may hold secrets, when the job has ended and
// cannot be resumed.
func endScript(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, o seedbed.JobResult) error {
	if j.Kind != seedbed.JobCreate && j.Kind != seedbed.JobRebuild || o.State == seedbed.JobFailed {
		return nil
	}
	tx.Later(`DELETE FROM job_script WHERE job = $1`, j.ID)
	return nil
}
