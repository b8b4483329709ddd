package store

import (
	"context"
	"slices"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/instances"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// scripted is hold for a create or rebuild job that must be in one of states.
func scripted(ctx context.Context, tx *sqldb.Tx, ref seedbed.JobRef, states ...seedbed.JobState) (seedbed.Job, error) {
	j, err := jobs.Hold(ctx, tx, ref)
	if err == nil && (j.Kind != seedbed.JobCreate && j.Kind != seedbed.JobRebuild || !slices.Contains(states, j.State)) {
		err = seedbed.Errorf(seedbed.ErrConflict, "job %s is a %s job and %s: its instance's volumes stay as they are",
			j.ID.Short(), j.Kind, j.State)
	}
	return j, err
}

// putNext replaces what a rebuild job makes of its instance.
func putNext(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, next seedbed.Instance) error {
	return sqldb.Exec(ctx, tx, `UPDATE rebuild SET instance = $1 WHERE job = $2 AND side = $3`, sqldb.AsJSON(next), job, seedbed.RebuildNext)
}

// addNext adds a volume to those that a rebuild makes. Its name must be unique among the volumes of
// all instances. The other side of a rebuild cannot have it, because the name ends with the start
// of the job's ID.
func addNext(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, v seedbed.Volume) error {
	next, err := nextOf(ctx, tx, j.ID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(next.Volumes, func(w seedbed.Volume) bool { return w.Pool == v.Pool && w.Name == v.Name }) {
		return sqldb.ErrUnchanged
	}
	if len(next.Volumes) >= seedbed.MaxVolumes {
		return seedbed.Errorf(seedbed.ErrInvalid, "instance %q has %d volumes: no instance has more", next.Name, len(next.Volumes))
	}
	taken, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT COUNT(*) FROM volume WHERE pool = $1 AND name = $2`, v.Pool, v.Name)
	if err == nil && taken > 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "the volume %s of pool %s already belongs to an instance", v.Name, v.Pool)
	}
	if err != nil {
		return err
	}
	if err := instances.CheckUnkept(ctx, tx, j.Instance, v.Pool, v.Name); err != nil {
		return err
	}
	if err := instances.CheckAttached(ctx, tx, j.Instance, len(next.Volumes)+1); err != nil {
		return err
	}
	v.Index = len(next.Volumes)
	if err := instances.CheckImages(ctx, groupcommit.Alone(tx),
		seedbed.Instance{ID: next.ID, Name: next.Name, Volumes: []seedbed.Volume{v}}); err != nil {
		return err
	}
	if err := holdDisk(ctx, tx, *next, v); err != nil {
		return err
	}
	next.Volumes = append(next.Volumes, v)
	return putNext(ctx, tx, j.ID, *next)
}

// dropNext removes a volume from those that a rebuild makes, and renumbers the volumes after it.
func dropNext(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, pool, name string) error {
	next, err := nextOf(ctx, tx, j.ID)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(next.Volumes), func(v seedbed.Volume) bool { return v.Pool == pool && v.Name == name })
	if len(left) == len(next.Volumes) {
		return sqldb.ErrUnchanged
	}
	for i := range left {
		left[i].Index = i
	}
	next.Volumes = left
	return putNext(ctx, tx, j.ID, *next)
}

// changeRun changes the script run of a job. It does nothing for a job without a script.
func changeRun(ctx context.Context, tx *sqldb.Tx, job seedbed.JobID, change func(*seedbed.ScriptRun) error) error {
	runs, err := sqldb.List(ctx, tx, func(r sqldb.Row) (run seedbed.ScriptRun, err error) {
		err = r.Scan(sqldb.ToJSON(&run))
		return run, err
	}, `SELECT run FROM job_script WHERE job = $1`, job)
	if err != nil || len(runs) == 0 {
		return err
	}
	if err := change(&runs[0]); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE job_script SET run = $1 WHERE job = $2`, sqldb.AsJSON(runs[0]), job)
}

// exchangeDomain replaces the domain XML that a script made for the instance with that of one side
// of a rebuild, if the rebuild's script has made one.
func exchangeDomain(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, to seedbed.RebuildSide) error {
	return changeRun(ctx, tx, j.ID, func(run *seedbed.ScriptRun) error {
		if run.XML == "" {
			return nil
		}
		xml := run.Former
		if to == seedbed.RebuildNext {
			former, err := sqldb.List(ctx, tx, sqldb.Value[string], `SELECT xml FROM instance_script WHERE instance = $1`, j.Instance)
			if err != nil {
				return err
			}
			run.Former = ""
			if len(former) > 0 {
				run.Former = former[0]
			}
			xml = run.XML
		}
		if xml == "" {
			return sqldb.Exec(ctx, tx, `DELETE FROM instance_script WHERE instance = $1`, j.Instance)
		}
		return putScriptDomain(ctx, tx, j.Instance, xml)
	})
}

func putScriptDomain(ctx context.Context, tx *sqldb.Tx, id seedbed.InstanceID, xml string) error {
	return sqldb.Exec(ctx, tx,
		`INSERT INTO instance_script (instance, xml) VALUES ($1, $2) ON CONFLICT (instance) DO UPDATE SET xml = excluded.xml`, id, xml)
}
