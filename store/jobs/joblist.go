package jobs

import (
	"context"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// Where returns the condition for the jobs of a query. The conditions without an argument
// repeat those of the partial indexes, which SQLite uses only if they match word for word.
func Where(q seedbed.JobQuery) *sqldb.Where {
	w := sqldb.InScope(q.Scope)
	switch q.State {
	case "":
	case seedbed.JobSucceeded:
		w.And("state = %s AND "+Ended, q.State)
	case seedbed.JobFailed, seedbed.JobRolledBack, seedbed.JobIncomplete:
		w.And("state = %s AND state IN ('failed', 'rolled_back', 'rollback_incomplete')", q.State)
	default:
		w.And("state = %s AND "+Live, q.State)
	}
	if q.Kind != "" {
		w.And("kind = %s", q.Kind)
		if q.Kind != seedbed.JobCreate {
			w.And("kind <> 'create'")
		}
	}
	if q.Subject != "" {
		w.And("subject = %s", q.Subject)
	}
	if q.Node != "" {
		w.And("node = %s", q.Node)
	}
	if q.After.ID != "" {
		w.And("(created, id) < (%s, %s)", sqldb.Micros(q.After.Created), q.After.ID)
	}
	return w
}

// ListJobs returns the jobs of a query, newest first.
func (s *Store) ListJobs(ctx context.Context, q seedbed.JobQuery) (all []seedbed.Job, err error) {
	err = s.db.View(ctx, "list jobs", func(tx *sqldb.Tx) error {
		w := Where(q)
		limit := fmt.Sprintf(` LIMIT $%d`, len(w.Args)+1)
		const (
			byAge = ` ORDER BY created DESC, id DESC`
			// Live jobs are few: this order has their own index used, not the one by age.
			ofLive = ` ORDER BY created + 0 DESC, id DESC`
		)
		from := w.String() + byAge
		_, one := q.Scope.One()
		switch {
		case q.State != "" && !q.State.Terminal():
			from = w.String() + ofLive
		case one && q.State == "" && (q.Kind == "" || q.Kind == seedbed.JobCreate):
			// The index by age of one project has only jobs that have ended.
			part := func(name, condition, order string) string {
				return `SELECT id FROM (SELECT id, created FROM job WHERE ` + w.String() + ` AND ` + condition + order + limit + `) AS ` + name
			}
			from = `id IN (` + part("live", Live, ofLive) + ` UNION ALL ` + part("ended", Ended, byAge) + `)` + byAge
		}
		all, err = sqldb.List(ctx, tx, ScanJob, `SELECT `+JobColumns+` FROM job WHERE `+from+limit, append(w.Args, sqldb.UpTo(q.Limit))...)
		return err
	})
	return all, err
}
