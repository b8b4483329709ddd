package jobs

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"time"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/outbox"
	"seedbed/store/sqldb"
)

// claimQuery returns the statement that claims the next job, if there is one. Its parameters are the
// owner ($1), the length of the lease in microseconds ($2), the wall clock ($3), the kinds ($4;
// empty means any), this process's clock for leases ($5; NULL if the database has its own), how many
// slots of the owner each project has ($6; a JSON object) and the project whose turn was last ($7). With
// limits, it leaves out nodes on which $8 jobs run and pools on which $9 jobs run.
//
// First it chooses the project: among those that have a job to claim, one with the fewest slots, and
// among these the next one after the last in the order of their names. The names of the projects with
// live jobs are found one after the other in the index, not by reading the jobs.
func claimQuery(c sqldb.Claiming, limits bool) string {
	free := ""
	if limits {
		const busy = ` NOT IN (SELECT %s FROM job WHERE owner <> '' AND lease_until > CLOCK AND %s <> '' GROUP BY %s HAVING COUNT(*) >= `
		free = ` AND node` + strings.ReplaceAll(busy, "%s", "node") + `$8) AND pool` + strings.ReplaceAll(busy, "%s", "pool") + `$9)`
	}
	claimable := Live + ` AND (state = 'queued' OR lease_until <= CLOCK) AND blocked = 0 AND ($4 = '' OR ` + c.Among + `)` + free
	return strings.ReplaceAll(`
		UPDATE job
		SET state = CASE WHEN cancel = 1 THEN 'undoing' WHEN state = 'queued' THEN 'running' ELSE state END,
			error = CASE WHEN cancel = 1 AND error = '' THEN 'cancelled' ELSE error END,
			attempts = CASE WHEN state = 'queued' AND stage = '' THEN 0 WHEN state = 'running' AND cancel = 1 THEN 1 ELSE attempts + 1 END,
			owner = $1, epoch = epoch + 1, lease_until = CLOCK + $2, started = COALESCE(started, $3)
		WHERE id = (
			SELECT id FROM job
			WHERE project = (
				WITH RECURSIVE live (name) AS (
					SELECT (SELECT project FROM job WHERE `+Live+` ORDER BY project LIMIT 1)
					UNION ALL
					SELECT (SELECT project FROM job WHERE `+Live+` AND project > live.name ORDER BY project LIMIT 1)
					FROM live WHERE live.name IS NOT NULL)
				SELECT name FROM live
				WHERE EXISTS (SELECT 1 FROM job WHERE project = live.name AND `+claimable+`)
				ORDER BY `+c.Slots+`, name <= $7, name LIMIT 1)
				AND `+claimable+`
			ORDER BY priority DESC, created, id LIMIT 1`+c.Lock+`)
		RETURNING `+JobColumns, "CLOCK", c.Clock)
}

// ClaimJob is ClaimNext for any kind of job, without limits.
func (s *Store) ClaimJob(ctx context.Context, owner string, lease time.Duration) (*seedbed.Job, error) {
	return s.ClaimNext(ctx, seedbed.ClaimOptions{Owner: owner, Lease: lease})
}

// ClaimNext claims a job for an owner and the duration of a lease, under the next epoch. The job is
// queued or its lease has expired. Of the projects with such jobs, it is one of the project with the
// fewest slots of the owner, in turns, and of that project's jobs the oldest of the highest priority.
// ClaimNext leaves out jobs of a kind that c does not list (if it lists any), jobs that wait for
// another job, and jobs whose node or pool is at its limit. A queued job becomes running, and a
// cancelled one undoing. Attempts grows when a job is taken over. ClaimNext returns nil if there is no
// job to claim.
func (s *Store) ClaimNext(ctx context.Context, c seedbed.ClaimOptions) (*seedbed.Job, error) {
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
	err := s.writes.Share(ctx, "claim job", func(ctx context.Context, b *groupcommit.Batch) ([]outbox.Event, error) {
		tx := b.Tx
		claimed = nil
		if limits && s.db.Dialect.Claim.Alone != "" {
			if err := sqldb.Exec(ctx, tx, s.db.Dialect.Claim.Alone); err != nil {
				return nil, err
			}
		}
		args := []any{
			c.Owner, c.Lease.Microseconds(), sqldb.Micros(sqldb.Now()), kinds, s.db.OwnClock(), sqldb.AsJSON(sqldb.OrEmptyMap(c.Slots)), c.Last,
		}
		if limits {
			args = append(args, orNone(c.PerNode), orNone(c.PerPool))
		}
		j, err := ScanJob(tx.QueryRowContext(ctx, claimQuery(s.db.Dialect.Claim, limits), args...))
		if errors.Is(err, sql.ErrNoRows) {
			return nil, sqldb.ErrUnchanged
		}
		if err != nil {
			return nil, err
		}
		claimed = &j
		rowChanged(b, j.ID)
		if j.Epoch > 1 || j.State != seedbed.JobRunning {
			return nil, nil
		}
		return []outbox.Event{EventOf(seedbed.EventJobStarted, j)}, nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// orNone returns a limit as the query takes it: the largest integer means no limit.
func orNone(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
