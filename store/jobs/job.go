package jobs

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"

	"seedbed"
	"seedbed/store/groupcommit"
	"seedbed/store/sqldb"
)

// newJobColumns are the columns that a new job sets, and JobColumns those that ScanJob reads.
const (
	newJobColumns = `id, project, kind, state, subject, instance, spec, node, pool, on_failure, priority, after, blocked, created`
	JobColumns    = newJobColumns + `, owner, epoch, lease_until, stage, done, total, progress, attempts, error, ` +
		`cancel, final, started, ended`
)

// jobTable is where jobs are added.
var jobTable = sqldb.Table{Into: `job (` + newJobColumns + `, events)`}

// ScanJob reads a job from a row of JobColumns.
func ScanJob(r sqldb.Row) (j seedbed.Job, err error) {
	var spec sql.NullString
	err = r.Scan(&j.ID, &j.Project, &j.Kind, &j.State, &j.Subject, &j.Instance, &spec, &j.Node, &j.Pool,
		sqldb.ToText(&j.OnFailure), &j.Priority, &j.After, &j.Blocked, sqldb.ToTime(&j.Created),
		&j.Owner, &j.Epoch, sqldb.ToTime(&j.LeaseUntil), &j.Stage, &j.Done, &j.Total, &j.Progress, &j.Attempts, &j.Error, &j.Cancel, &j.Final,
		sqldb.ToTime(&j.Started), sqldb.ToTime(&j.Ended))
	if spec.Valid {
		j.Spec = []byte(spec.String)
	}
	return j, err
}

// Live is the condition of a job that has not ended.
const Live = `state IN ('queued', 'running', 'undoing')`

// Ended is the condition of a job that has ended.
const Ended = `state NOT IN ('queued', 'running', 'undoing')`

// ReadJob returns the job with that ID. It returns ErrNotFound if there is none.
func ReadJob(ctx context.Context, tx *sqldb.Tx, id seedbed.JobID) (seedbed.Job, error) {
	return sqldb.One(ctx, tx, ScanJob, seedbed.Errorf(seedbed.ErrNotFound, "job %q does not exist", sqldb.Clean(string(id), 80)),
		`SELECT `+JobColumns+` FROM job WHERE id = $1`, id)
}

// Job returns the job with that complete ID.
func (s *Store) Job(ctx context.Context, id seedbed.JobID) (j seedbed.Job, err error) {
	err = s.db.View(ctx, "read job", func(tx *sqldb.Tx) error {
		j, err = ReadJob(ctx, tx, id)
		return err
	})
	return j, err
}

var jobPrefix = regexp.MustCompile(`^[0-9a-f]{8}[0-9a-f-]{0,28}$`)

// FindJob returns the job in a scope whose ID starts with prefix, at least eight digits. If there are
// several, it returns ErrConflict.
func (s *Store) FindJob(ctx context.Context, in seedbed.Scope, prefix string) (j seedbed.Job, err error) {
	p := strings.ToLower(prefix)
	if !jobPrefix.MatchString(p) {
		return j, seedbed.Errorf(seedbed.ErrInvalid, "%q is not a job: expected the first 8 or more digits of its ID", sqldb.Clean(prefix, 80))
	}
	err = s.db.View(ctx, "read job", func(tx *sqldb.Tx) error {
		w := sqldb.InScope(in)
		w.And(`id LIKE %s ESCAPE '\'`, sqldb.LikePrefix(p))
		found, err := sqldb.List(ctx, tx, ScanJob, `SELECT `+JobColumns+` FROM job WHERE `+w.String()+` ORDER BY id LIMIT 2`, w.Args...)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return seedbed.Errorf(seedbed.ErrNotFound, "job %q does not exist", p)
		case len(found) > 1:
			return seedbed.Errorf(seedbed.ErrConflict, "%q is the start of several jobs, such as %s and %s: give more of the ID",
				p, found[0].ID, found[1].ID)
		}
		j = found[0]
		return nil
	})
	return j, err
}

// Jobs returns the newest jobs first, at most limit and at most 1000.
func (s *Store) Jobs(ctx context.Context, limit int) ([]seedbed.Job, error) {
	return s.ListJobs(ctx, seedbed.JobQuery{Scope: seedbed.AllProjects(), Limit: sqldb.Bound(limit, 1000)})
}

// InsertJob adds a queued job whose history has that many events. It returns ErrExists if its ID is
// taken.
func InsertJob(ctx context.Context, b *groupcommit.Batch, j seedbed.Job, events int) error {
	row := []any{string(j.ID), j.Project, string(j.Kind), string(seedbed.JobQueued), j.Subject, string(j.Instance), sqldb.Null(string(j.Spec)),
		j.Node, j.Pool, j.OnFailure.String(), int64(j.Priority), string(j.After), sqldb.Flag(j.Blocked), sqldb.Micros(sqldb.OrNow(j.Created)),
		events}
	if b.Shared {
		b.Add(jobTable, row...)
		return nil
	}
	n, err := sqldb.Affect(ctx, b.Tx, sqldb.InsertRows(jobTable.Into, 1, len(row))+` ON CONFLICT DO NOTHING`, row...)
	if err == nil && n == 0 {
		err = seedbed.Errorf(seedbed.ErrExists, "job %s exists already", j.ID)
	}
	return err
}

var errUnheld = errors.New("the job is not held")

const lockJob = `UPDATE job SET epoch = epoch WHERE id = $1 AND epoch = $2 AND owner <> ''`

// Hold checks that ref still owns its job, and locks the job's row for the rest of the transaction.
// It returns ErrStale if the job was taken over, released or ended.
func Hold(ctx context.Context, tx *sqldb.Tx, ref seedbed.JobRef) (seedbed.Job, error) {
	j, err := sqldb.LockOne(ctx, tx, ScanJob, errUnheld, lockJob+` RETURNING `+JobColumns, ref.ID, ref.Epoch)
	if !errors.Is(err, errUnheld) {
		return j, err
	}
	if j, err = ReadJob(ctx, tx, ref.ID); err != nil {
		return j, err
	}
	return j, seedbed.Errorf(seedbed.ErrStale, "job %s is not held under epoch %d: it is %s under epoch %d",
		ref.ID.Short(), ref.Epoch, j.State, j.Epoch)
}

// SetSpec replaces the input of a job. The caller holds the job.
func SetSpec(ctx context.Context, tx *sqldb.Tx, id seedbed.JobID, spec any) error {
	return sqldb.Exec(ctx, tx, `UPDATE job SET spec = $1 WHERE id = $2`, sqldb.AsJSON(spec), id)
}

// Become returns ErrConflict if the job's state cannot change to next.
func Become(j seedbed.Job, next seedbed.JobState) error {
	if !j.State.CanBecome(next) {
		return seedbed.Errorf(seedbed.ErrConflict, "job %s is %s and cannot become %s", j.ID.Short(), j.State, next)
	}
	return nil
}
