package store

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"time"

	"seedbed"
)

// claiming is what differs between databases where jobs are claimed.
type claiming struct {
	// among tells whether kind is one of the list $4, which begins and ends with a comma.
	among string
	// lock keeps two who claim at the same time from the same row.
	lock string
	// alone keeps everybody else from claiming until the transaction ends, so that
	// what is counted stays so; empty where there is one writer.
	alone string
}

// query takes the next job for owner $1 and $2 microseconds of the clock that leases are
// measured by, which is at $5, and at $3 of the wall clock, among the kinds $4 unless that
// is empty; no row when there is none. With limits, nodes on which $6 jobs run and
// pools on which $7 do are left out.
func (c claiming) query(limits bool) string {
	free := ""
	if limits {
		const busy = ` NOT IN (SELECT %s FROM job WHERE owner <> '' AND lease_until > CLOCK AND %s <> '' GROUP BY %s HAVING COUNT(*) >= `
		free = ` AND node` + strings.ReplaceAll(busy, "%s", "node") + `$6) AND pool` + strings.ReplaceAll(busy, "%s", "pool") + `$7)`
	}
	return strings.ReplaceAll(`
		UPDATE job
		SET state = CASE WHEN cancel = 1 THEN 'undoing' WHEN state = 'queued' THEN 'running' ELSE state END,
			error = CASE WHEN cancel = 1 AND error = '' THEN 'cancelled' ELSE error END,
			attempts = CASE WHEN state = 'queued' AND stage = '' THEN 0 WHEN state = 'running' AND cancel = 1 THEN 1 ELSE attempts + 1 END,
			owner = $1, epoch = epoch + 1, lease_until = CLOCK + $2, started = COALESCE(started, $3)
		WHERE id = (
			SELECT id FROM job
			WHERE state IN ('queued', 'running', 'undoing') AND (state = 'queued' OR lease_until <= CLOCK) AND blocked = 0
				AND ($4 = '' OR `+c.among+`)`+free+`
			ORDER BY priority DESC, created, id LIMIT 1`+c.lock+`)
		RETURNING `+jobColumns, "CLOCK", "CAST($5 AS bigint)")
}

// ClaimJob is ClaimNext for who can run any kind, without limits.
func (db *DB) ClaimJob(ctx context.Context, owner string, lease time.Duration) (*seedbed.Job, error) {
	return db.ClaimNext(ctx, seedbed.Claiming{Owner: owner, Lease: lease})
}

// ClaimNext takes a job that is queued, or whose lease has run out, for the owner
// and the time of the lease, under an epoch one higher than before: of those of
// the highest priority the oldest. It leaves jobs of kinds that the asker does not
// know, that wait for another, or for which there is no room on their node or
// pool. A queued job becomes running, and one that was cancelled undoing; Attempts
// grows when a job is taken over. It returns nil when there is nothing to do.
func (db *DB) ClaimNext(ctx context.Context, c seedbed.Claiming) (*seedbed.Job, error) {
	if c.Owner == "" || c.Lease <= 0 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "claiming a job needs an owner and a lease, not %q and %s", c.Owner, c.Lease)
	}
	kinds := ""
	for _, k := range c.Kinds {
		kinds += "," + string(k)
	}
	if kinds != "" {
		kinds += ","
	}
	limits := c.PerNode > 0 || c.PerPool > 0
	var claimed *seedbed.Job
	err := db.share(ctx, "claim job", func(ctx context.Context, b *Batch) ([]notice, error) {
		tx := b.Tx
		claimed = nil
		if limits && db.dialect.claim.alone != "" {
			if err := exec(ctx, tx, db.dialect.claim.alone); err != nil {
				return nil, err
			}
		}
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return nil, err
		}
		args := []any{c.Owner, c.Lease.Microseconds(), micros(now()), kinds, micros(clock)}
		if limits {
			args = append(args, orNone(c.PerNode), orNone(c.PerPool))
		}
		j, err := scanJob(tx.QueryRowContext(ctx, db.dialect.claim.query(limits), args...))
		if errors.Is(err, sql.ErrNoRows) {
			return nil, errUnchanged
		}
		if err != nil {
			return nil, err
		}
		claimed = &j
		if j.Epoch > 1 || j.State != seedbed.JobRunning {
			return nil, nil
		}
		return []notice{ofJob(seedbed.EventJobStarted, j)}, nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// orNone is a limit as the query takes it.
func orNone(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
