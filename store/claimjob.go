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
	// among tells whether kind is one of the list $5, which begins and ends with a comma.
	among string
	// lock keeps two who claim at the same time from the same row.
	lock string
	// alone keeps everybody else from claiming until the transaction ends, so that
	// what is counted stays so; empty where there is one writer.
	alone string
}

// query takes the next job for owner $1 until $2, at time $3 of the clock that
// leases are measured by and $4 of the wall clock, among the kinds $5 unless that
// is empty; no row when there is none. With limits, nodes on which $6 jobs run and
// pools on which $7 do are left out.
func (c claiming) query(limits bool) string {
	free := ""
	if limits {
		const busy = ` NOT IN (SELECT %s FROM job WHERE owner <> '' AND lease_until > $3 AND %s <> '' GROUP BY %s HAVING COUNT(*) >= `
		free = ` AND node` + strings.ReplaceAll(busy, "%s", "node") + `$6) AND pool` + strings.ReplaceAll(busy, "%s", "pool") + `$7)`
	}
	return `
		UPDATE job
		SET state = CASE WHEN cancel = 1 THEN 'undoing' WHEN state = 'queued' THEN 'running' ELSE state END,
			error = CASE WHEN cancel = 1 AND error = '' THEN 'cancelled' ELSE error END,
			attempts = CASE WHEN state = 'queued' AND stage = '' THEN 0 WHEN state = 'running' AND cancel = 1 THEN 1 ELSE attempts + 1 END,
			owner = $1, epoch = epoch + 1, lease_until = $2, started = COALESCE(started, $4)
		WHERE id = (
			SELECT id FROM job
			WHERE state IN ('queued', 'running', 'undoing') AND (state = 'queued' OR lease_until <= $3) AND blocked = 0
				AND ($5 = '' OR ` + c.among + `)` + free + `
			ORDER BY priority DESC, created, id LIMIT 1` + c.lock + `)
		RETURNING ` + jobColumns
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
	err := db.own(ctx, "claim job", func(tx *sql.Tx) error {
		claimed = nil
		if limits && db.dialect.claim.alone != "" {
			if err := exec(ctx, tx, db.dialect.claim.alone); err != nil {
				return err
			}
		}
		clock, err := db.leaseClock(ctx, tx)
		if err != nil {
			return err
		}
		args := []any{c.Owner, micros(clock.Add(c.Lease)), micros(clock), micros(now()), kinds}
		if limits {
			args = append(args, orNone(c.PerNode), orNone(c.PerPool))
		}
		j, err := scanJob(tx.QueryRowContext(ctx, db.dialect.claim.query(limits), args...))
		if errors.Is(err, sql.ErrNoRows) {
			return errUnchanged
		}
		if err != nil {
			return err
		}
		claimed = &j
		if j.Epoch > 1 || j.State != seedbed.JobRunning {
			return nil
		}
		return emit(ctx, tx, ofJob(seedbed.EventJobStarted, j))
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
