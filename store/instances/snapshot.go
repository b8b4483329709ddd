package instances

import (
	"context"
	"encoding/json"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// snapshotOf returns what a job says of the snapshot that it takes or removes.
func snapshotOf(j seedbed.Job) (input seedbed.SnapshotJob, err error) {
	if err := json.Unmarshal(j.Spec, &input); err != nil {
		return input, fmt.Errorf("the input of %s job %s: %w", j.Kind, j.ID, err)
	}
	return input, nil
}

// AddSnapshot records the snapshot that a job is to take of its instance. It reports whether there was no
// record of one of that name.
func AddSnapshot(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) (added bool, err error) {
	of, err := snapshotOf(j)
	if err != nil {
		return false, err
	}
	n, err := sqldb.Affect(ctx, tx,
		`INSERT INTO snapshot (instance, name, job, schedule, taken) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		j.Instance, of.Name, j.ID, of.Schedule, sqldb.Micros(sqldb.Now()))
	return n == 1, err
}

// CheckRemoval returns ErrConflict if a job for a schedule is to remove snapshots that this schedule has not made.
func CheckRemoval(ctx context.Context, tx *sqldb.Tx, j seedbed.Job) error {
	of, err := snapshotOf(j)
	if err != nil || of.Schedule == "" {
		return err
	}
	for _, name := range append([]string{of.Name}, of.Also...) {
		by, err := sqldb.One(ctx, tx, sqldb.Value[string], nil,
			`SELECT schedule FROM snapshot WHERE instance = $1 AND name = $2 AND rebuild = ''`, j.Instance, name)
		if err == nil && by != of.Schedule {
			err = seedbed.Errorf(seedbed.ErrConflict, "snapshot %q of instance %q was not made by the snapshot schedule %s", name, j.Subject,
				of.Schedule)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ScheduledSnapshots returns the snapshots that schedules have made, sorted by schedule, instance and time. It leaves out those whose
// volumes are replaced.
func (s *Store) ScheduledSnapshots(ctx context.Context) (all []seedbed.ScheduledSnapshot, err error) {
	scan := func(r sqldb.Row) (o seedbed.ScheduledSnapshot, err error) {
		err = r.Scan(&o.Schedule, &o.Instance.Project, &o.Instance.Name, &o.Name, sqldb.ToTime(&o.Taken), &o.State)
		return o, err
	}
	err = s.db.View(ctx, "list the snapshots of schedules", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scan,
			`SELECT snapshot.schedule, instance.project, instance.name, snapshot.name, snapshot.taken, job.state
				FROM snapshot JOIN instance ON instance.id = snapshot.instance JOIN job ON job.id = snapshot.job
				WHERE snapshot.schedule <> '' AND snapshot.rebuild = ''
				ORDER BY snapshot.schedule, instance.project, instance.name, snapshot.taken`)
		return err
	})
	return all, err
}

// EndSnapshots records which snapshots there are when a job ends in that state. Gone are the one that it has
// removed, the one that it took and has undone, and those of volumes that it has replaced. What a job has
// left behind is still there.
func EndSnapshots(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, in seedbed.JobState) error {
	switch {
	case j.Kind == seedbed.JobRebuild && in == seedbed.JobSucceeded:
		return sqldb.Exec(ctx, tx, `DELETE FROM snapshot WHERE instance = $1 AND rebuild = $2`, j.Instance, j.ID)
	case j.Kind == seedbed.JobSnapshot && in == seedbed.JobRolledBack:
		return sqldb.Exec(ctx, tx, `DELETE FROM snapshot WHERE instance = $1 AND job = $2`, j.Instance, j.ID)
	case j.Kind == seedbed.JobSnapshot && in == seedbed.JobSucceeded: // an earlier job may have taken a part of it
		of, err := snapshotOf(j)
		if err != nil {
			return err
		}
		// What a schedule and somebody else have taken is not the schedule's.
		return sqldb.Exec(ctx, tx, `UPDATE snapshot SET job = $1, schedule = CASE WHEN schedule = $4 THEN schedule ELSE '' END
			WHERE instance = $2 AND name = $3 AND rebuild = '' AND job <> $1`, j.ID, j.Instance, of.Name, of.Schedule)
	case j.Kind == seedbed.JobSnapshotRemove && in == seedbed.JobSucceeded:
		of, err := snapshotOf(j)
		if err != nil {
			return err
		}
		for _, name := range append([]string{of.Name}, of.Also...) {
			err := sqldb.Exec(ctx, tx, `DELETE FROM snapshot WHERE instance = $1 AND name = $2 AND rebuild = ''`, j.Instance, name)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ReplaceSnapshots records that a rebuild has replaced the volumes of its instance. Their snapshots count
// until that can no longer be undone.
func ReplaceSnapshots(ctx context.Context, tx *sqldb.Tx, rebuild seedbed.Job) error {
	return sqldb.Exec(ctx, tx, `UPDATE snapshot SET rebuild = $1 WHERE instance = $2 AND rebuild = ''`, rebuild.ID, rebuild.Instance)
}

// RestoreSnapshots records that the instance has the volumes again which a rebuild had replaced.
func RestoreSnapshots(ctx context.Context, tx *sqldb.Tx, rebuild seedbed.Job) error {
	if err := sqldb.Exec(ctx, tx, `DELETE FROM snapshot WHERE instance = $1 AND rebuild = ''`, rebuild.Instance); err != nil {
		return err
	}
	return sqldb.Exec(ctx, tx, `UPDATE snapshot SET rebuild = '' WHERE instance = $1 AND rebuild = $2`, rebuild.Instance, rebuild.ID)
}

// HasSnapshot reports whether a snapshot of an instance is recorded: a job takes it, or has taken it. It may
// have been removed from the pool by other means.
func (s *Store) HasSnapshot(ctx context.Context, id seedbed.InstanceID, name string) (has bool, err error) {
	err = s.db.View(ctx, "read snapshot", func(tx *sqldb.Tx) error {
		has, err = sqldb.One(ctx, tx, sqldb.Value[bool], nil,
			`SELECT true FROM snapshot WHERE instance = $1 AND name = $2 AND rebuild = ''`, id, name)
		return err
	})
	return has, err
}
