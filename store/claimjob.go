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

// query takes the next job for owner $1 and $2 microseconds of the clock that
// leases are measured by, which is now at clock, and at $3 of the wall clock, among the kinds $4
// unless that is empty; no row when there is none. $5 is for clock, and for only, a further
// condition. With limits, nodes on which $6 jobs run and pools on which $7 do are left out.
func (c claiming) query(limits bool, clock, only string) string {
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
			ORDER BY priority DESC, created, id LIMIT 1`+c.lock+`)`+only+`
		RETURNING `+jobColumns, "CLOCK", clock)
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
	if !limits {
		if claimed, err := db.claimAtOnce(ctx, c, kinds); !errors.Is(err, errLeftOut) {
			return claimed, err
		}
	}
	var claimed *seedbed.Job
	err := db.share(ctx, "claim job", func(ctx context.Context, tx *sql.Tx) ([]notice, error) {
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
		j, err := scanJob(tx.QueryRowContext(ctx, db.dialect.claim.query(limits, `CAST($5 AS bigint)`, ""), args...))
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

// claimNow reads the clock itself, and fails unless the endpoints are those of the text $5.
var claimNow = postgres.claim.query(false, `CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000 AS bigint)`,
	` AND 1 / CASE WHEN $5 = `+endpointsText+` THEN 1 ELSE 0 END = 1`)

// claimAtOnce claims with one statement, which is a transaction by itself, where
// nobody is to be told of it; else it gives errLeftOut. It does so also when the answer
// did not come: a job that was claimed all the same is given out again with the end of its lease.
func (db *DB) claimAtOnce(ctx context.Context, c seedbed.Claiming, kinds string) (*seedbed.Job, error) {
	if !db.dialect.volleys {
		return nil, errLeftOut
	}
	told, err := db.knownEndpoints(ctx)
	if err != nil || told.want(seedbed.EventJobStarted) {
		return nil, errLeftOut
	}
	ctx, cancel := context.WithTimeout(ctx, db.dialect.limit)
	defer cancel()
	j, err := scanJob(db.write.QueryRowContext(ctx, claimNow, c.Owner, c.Lease.Microseconds(), micros(now()), kinds, told.text))
	switch {
	case err == nil:
		db.wake()
		db.tellSoon()
		return &j, nil
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case ctx.Err() == nil:
		db.known.forget() // perhaps the endpoints are others by now
		return nil, errLeftOut
	}
	return nil, db.fail(ctx, "claim job", err)
}

// orNone is a limit as the query takes it.
func orNone(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
