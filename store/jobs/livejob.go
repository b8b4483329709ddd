package jobs

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// LiveJobs returns the jobs that have not ended, oldest first, at most limit and at most 1000.
func (s *Store) LiveJobs(ctx context.Context, limit int) (all []seedbed.Job, err error) {
	err = s.db.View(ctx, "list live jobs", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, ScanJob, `SELECT `+JobColumns+` FROM job WHERE `+Live+` ORDER BY created, id LIMIT $1`,
			sqldb.Bound(limit, 1000))
		return err
	})
	return all, err
}
