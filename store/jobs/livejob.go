package jobs

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// LiveJobs returns the jobs in a scope that have not ended, oldest first, at most limit and at most 1000.
func (s *Store) LiveJobs(ctx context.Context, in seedbed.Scope, limit int) (all []seedbed.Job, err error) {
	err = s.db.View(ctx, "list live jobs", func(tx *sqldb.Tx) error {
		w := sqldb.InScope(in)
		w.And(Live)
		w.Args = append(w.Args, sqldb.Bound(limit, 1000))
		all, err = sqldb.List(ctx, tx, ScanJob, `SELECT `+JobColumns+` FROM job WHERE `+w.String()+
			fmt.Sprintf(` ORDER BY created, id LIMIT $%d`, len(w.Args)), w.Args...)
		return err
	})
	return all, err
}
