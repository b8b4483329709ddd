package hooks

import (
	"context"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// lockedHooks holds the names of the hooks that a batch has locked.
type lockedHooks map[string]bool

// LockQuota locks the row of a hook, if it exists, once for all writes of the batch.
func LockQuota(ctx context.Context, b *groupcommit.Batch, name string) error {
	locked := groupcommit.Of[lockedHooks](b)
	if name == "" || (*locked)[name] {
		return nil
	}
	if *locked == nil {
		*locked = lockedHooks{}
	}
	(*locked)[name] = true
	return b.LockRow(ctx, `UPDATE hook SET name = name WHERE name = $1 RETURNING name`, name)
}

// QuotaOf returns the hook whose quota an acceptance counts against, or the empty string.
func QuotaOf(a seedbed.Acceptance) string {
	if a.Job.Kind != seedbed.JobCreate && a.Job.Kind != seedbed.JobClone || a.Delivery == nil || a.Delivery.Quota == (seedbed.Quota{}) {
		return ""
	}
	return a.Delivery.Hook
}

// HoldQuota returns ErrFull for a create that exceeds the quota of its hook. If there is a quota,
// the hook's row is locked, so that concurrent creates count each other.
func HoldQuota(ctx context.Context, b *groupcommit.Batch, a seedbed.Acceptance) error {
	hook := QuotaOf(a)
	if hook == "" {
		return nil
	}
	if err := LockQuota(ctx, b, hook); err != nil {
		return err
	}
	q := a.Delivery.Quota
	if q.Instances > 0 {
		n, err := sqldb.Value[int](b.QueryRowContext(ctx, `SELECT COUNT(*) FROM instance WHERE hook = $1 AND hook <> ''`, hook))
		if err != nil {
			return err
		}
		if n >= q.Instances {
			return seedbed.Errorf(seedbed.ErrFull,
				"hook %q has created %d instances that still exist, which is its limit: remove some, or raise the limit", hook, n)
		}
	}
	if q.Creates > 0 {
		// The current delivery has no job yet.
		n, err := sqldb.Value[int](b.QueryRowContext(ctx,
			`SELECT COUNT(*) FROM delivery JOIN job ON job.id = delivery.job AND job.kind IN ('create', 'clone')
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
