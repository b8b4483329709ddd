package store

import (
	"context"

	"seedbed"
	"seedbed/store/jobs"
	"seedbed/store/sqldb"
)

// ScheduleFailures returns the jobs of the last run of a schedule that have failed, the oldest first. Those that were cancelled have not.
func (db *DB) ScheduleFailures(ctx context.Context, s seedbed.Schedule) (failed []seedbed.Job, err error) {
	if s.Last == nil {
		return nil, nil
	}
	err = db.sql.View(ctx, "list the failed jobs of a schedule", func(tx *sqldb.Tx) error {
		all, err := sqldb.List(ctx, tx, jobs.ScanJob,
			`SELECT `+jobs.JobColumns+` FROM job
				WHERE project = $1 AND kind = $2 AND created >= $3 AND state IN ($4, $5, $6) AND cancel = 0 ORDER BY created`,
			s.Project, string(s.Kind), sqldb.Micros(s.Last.Time), seedbed.JobRolledBack, seedbed.JobIncomplete, seedbed.JobFailed)
		for _, j := range all {
			var spec struct { // what the inputs of both kinds have
				Schedule string `json:"schedule"`
			}
			if readSpec(j, &spec) == nil && spec.Schedule == s.Name {
				failed = append(failed, j)
			}
		}
		return err
	})
	return failed, err
}
