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
		w.And("state = %s", q.State)
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
		created := "created"
		if q.State != "" && !q.State.Terminal() {
			created += " + 0" // live jobs are few: use their own index, not the one by age
		}
		query := `SELECT ` + JobColumns + ` FROM job WHERE ` + w.String() + fmt.Sprintf(` ORDER BY %s DESC, id DESC LIMIT $%d`,
			created, len(w.Args)+1)
		all, err = sqldb.List(ctx, tx, ScanJob, query, append(w.Args, sqldb.UpTo(q.Limit))...)
		return err
	})
	return all, err
}
