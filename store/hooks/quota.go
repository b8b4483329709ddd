package hooks

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// HoldQuota returns ErrFull for a create that exceeds the quota of its hook. If there is a quota,
// the hook's row is locked, so that concurrent creates count each other.
func HoldQuota(ctx context.Context, tx *sqldb.Tx, a seedbed.Acceptance) error {
	q, hook := a.Delivery.Quota, a.Delivery.Hook
	if a.Job.Kind != seedbed.JobCreate || q == (seedbed.Quota{}) {
		return nil
	}
	if err := tx.LockRow(ctx, `UPDATE hook SET name = name WHERE name = $1 RETURNING name`, hook); err != nil {
		return err
	}
	if q.Instances > 0 {
		n, err := sqldb.Value[int](tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM instance WHERE hook = $1 AND hook <> ''`, hook))
		if err != nil {
			return err
		}
		if n >= q.Instances {
			return seedbed.Errorf(seedbed.ErrFull,
				"hook %q has made %d instances that are still there, and may have no more: remove some, or raise its limit", hook, n)
		}
	}
	if q.Creates > 0 {
		// The current delivery has no job yet.
		n, err := sqldb.Value[int](tx.QueryRowContext(ctx,
			`SELECT COUNT(*) FROM delivery JOIN job ON job.id = delivery.job AND job.kind = 'create'
			WHERE delivery.hook = $1 AND delivery.received > $2`, hook, sqldb.Now().Add(-time.Hour).UnixMicro()))
		if err != nil {
			return err
		}
		if n >= q.Creates {
			return seedbed.Errorf(seedbed.ErrFull,
				"hook %q has asked for %d instances within an hour, and may for no more: wait, or raise its limit", hook, n)
		}
	}
	return nil
}
