package jobs

import (
	"context"

	"seedbed/store/sqldb"
)

// Queued counts the jobs that wait for an engine. It stops counting at most.
func (s *Store) Queued(ctx context.Context, most int) (n int, err error) {
	err = s.db.View(ctx, "count the queue", func(tx *sqldb.Tx) error {
		n, err = sqldb.Value[int](tx.QueryRowContext(ctx,
			`SELECT COUNT(*) FROM (SELECT 1 FROM job WHERE `+Live+` AND state = 'queued' LIMIT $1) AS waiting`, most))
		return err
	})
	return n, err
}
