package jobs

import (
	"cmp"
	"context"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// maxOrphans is the largest number of orphans recorded for one stage.
const maxOrphans = 200

// orphanColumns are the columns of an orphan besides its index among those of the stage.
const orphanColumns = `job, stage, kind, pool, name, why, since, tries, tried, node`

// NoteOrphans replaces the recorded orphans of a stage of a job. If problem is empty, it records
// none.
func NoteOrphans(ctx context.Context, tx *sqldb.Tx, j seedbed.Job, stage, problem string, left []seedbed.Orphan) error {
	type before struct {
		since time.Time
		tries int
	}
	was, err := sqldb.List(ctx, tx, func(r sqldb.Row) (b before, err error) {
		err = r.Scan(sqldb.ToTime(&b.since), &b.tries)
		return b, err
	}, `DELETE FROM orphan WHERE job = $1 AND stage = $2 RETURNING since, tries`, j.ID, stage)
	if err != nil || problem == "" {
		return err
	}
	at := sqldb.Now()
	since, tries := at, 1
	for _, b := range was {
		since, tries = b.since, b.tries+1
	}
	if left == nil {
		left = []seedbed.Orphan{{Kind: seedbed.OrphanStage, Name: stage, Why: problem}}
	}
	for i, o := range left[:min(len(left), maxOrphans)] {
		err := sqldb.Exec(ctx, tx, `INSERT INTO orphan (`+orphanColumns+`, idx) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			j.ID, stage, o.Kind, sqldb.Clean(o.Pool, 80), sqldb.Clean(o.Name, 400),
			sqldb.Clean(o.Why, sqldb.MaxText), sqldb.Micros(since), tries, sqldb.Micros(at), o.Node, i)
		if err != nil {
			return err
		}
	}
	return nil
}

// Orphans returns what undone jobs have left behind, the oldest first. It leaves out jobs that are
// still being undone.
func (s *Store) Orphans(ctx context.Context) (all []seedbed.Orphan, err error) {
	err = s.db.View(ctx, "list orphans", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, func(r sqldb.Row) (o seedbed.Orphan, err error) {
			var j seedbed.Job // its Node is that of what it left, unless this says another one
			err = r.Scan(&o.Job, &o.Stage, &o.Kind, &o.Pool, &o.Name, &o.Why, sqldb.ToTime(&o.Since), &o.Tries, sqldb.ToTime(&o.Tried),
				&o.Node, &o.Of, &j.Project, &j.Subject, &o.Instance, &j.Node)
			o.Project, o.Node = j.Project, cmp.Or(o.Node, j.Node)
			if o.Subject = j.Subject; o.Instance != "" {
				o.Subject = j.FullSubject().String()
			}
			return o, err
		},
			`SELECT `+orphanColumns+`, job_kind, project, subject, instance, job_node
			FROM orphan
			JOIN (SELECT id, kind AS job_kind, project, subject, instance, node AS job_node, state FROM job) AS undone ON undone.id = orphan.job
			WHERE state = $1 ORDER BY since, job, stage, idx`,
			seedbed.JobIncomplete)
		return err
	})
	return all, err
}

// DropOrphansOf deletes what the jobs of an instance had left behind.
func DropOrphansOf(ctx context.Context, tx *sqldb.Tx, instance seedbed.InstanceID) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM orphan WHERE job IN (SELECT id FROM job WHERE instance = $1)`, instance)
}

// DropOrphansOfVolume deletes what the jobs that made a volume of a project had left behind.
func DropOrphansOfVolume(ctx context.Context, tx *sqldb.Tx, project, name string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM orphan WHERE job IN (SELECT id FROM job WHERE kind = $1 AND project = $2 AND subject = $3)`,
		seedbed.JobVolumeAdd, project, name)
}

// DropOrphansOfClaim deletes what the job that made a claim for holder had left behind.
func DropOrphansOfClaim(ctx context.Context, tx *sqldb.Tx, kind, holder string) error {
	return sqldb.Exec(ctx, tx, `DELETE FROM orphan WHERE job IN (SELECT job FROM claim WHERE kind = $1 AND holder = $2)`, kind, holder)
}
