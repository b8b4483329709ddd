package store

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// LiveJobs returns the jobs that have not ended, oldest first, at most limit and at most 1000.
func (db *DB) LiveJobs(ctx context.Context, limit int) (all []seedbed.Job, err error) {
	err = db.sql.View(ctx, "list live jobs", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanJob, `SELECT `+jobColumns+` FROM job WHERE `+live+` ORDER BY created, id LIMIT $1`, sqldb.Bound(limit, 1000))
		return err
	})
	return all, err
}
