package backups

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

const scheduleColumns = `kind, name, project, COALESCE(target, ''), cron, settings, last, revision, created`

func scanSchedule(r sqldb.Row) (s seedbed.Schedule, err error) {
	err = r.Scan(&s.Kind, &s.Name, &s.Project, &s.Target, &s.Cron, sqldb.ToJSON(&s.ScheduleSettings), sqldb.ToJSON(&s.Last), &s.Revision,
		sqldb.ToTime(&s.Created))
	return s, err
}

// CreateSchedule adds a schedule. It returns ErrInvalid for one that is not valid, or whose target does not exist, and ErrExists if there
// is one of that kind and name.
func (s *Store) CreateSchedule(ctx context.Context, b seedbed.Schedule) (seedbed.Schedule, error) {
	b.Project = cmp.Or(b.Project, seedbed.DefaultProject)
	if err := b.Check(); err != nil {
		return seedbed.Schedule{}, err
	}
	b.Revision, b.Created = 1, sqldb.Now()
	err := s.db.Update(ctx, "create "+b.Kind.What()+" "+b.Name, func(tx *sqldb.Tx) error {
		if _, err := access.HoldProject(ctx, tx, b.Project); err != nil {
			return sqldb.Within(b.Kind.What()+" "+b.Name, err)
		}
		if b.Kind == seedbed.ScheduleBackup {
			if _, err := lockTarget(ctx, tx, b.Target); errors.Is(err, seedbed.ErrNotFound) {
				return seedbed.Errorf(seedbed.ErrInvalid, "%s", err)
			} else if err != nil {
				return err
			}
		}
		n, err := sqldb.Affect(ctx, tx,
			`INSERT INTO schedule (kind, name, project, target, cron, settings, last, revision, created)
				VALUES ($1, $2, $3, $4, $5, $6, 'null', $7, $8) ON CONFLICT DO NOTHING`,
			b.Kind, b.Name, b.Project, sql.NullString{String: b.Target, Valid: b.Target != ""}, b.Cron, sqldb.AsJSON(b.ScheduleSettings),
			b.Revision, sqldb.Micros(b.Created))
		if err == nil && n == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "%s %q exists already", b.Kind.What(), b.Name)
		}
		return err
	})
	if err != nil {
		return seedbed.Schedule{}, err
	}
	return b, nil
}

// Schedules returns all schedules sorted by kind and name.
func (s *Store) Schedules(ctx context.Context) (all []seedbed.Schedule, err error) {
	err = s.db.View(ctx, "list schedules", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanSchedule, `SELECT `+scheduleColumns+` FROM schedule ORDER BY kind, name`)
		return err
	})
	return all, err
}

func noSchedule(kind seedbed.ScheduleKind, name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "%s %q does not exist", kind.What(), sqldb.Clean(name, 120))
}

// Schedule returns the schedule of that kind and name.
func (s *Store) Schedule(ctx context.Context, kind seedbed.ScheduleKind, name string) (b seedbed.Schedule, err error) {
	err = s.db.View(ctx, "read schedule", func(tx *sqldb.Tx) error {
		b, err = sqldb.One(ctx, tx, scanSchedule, noSchedule(kind, name),
			`SELECT `+scheduleColumns+` FROM schedule WHERE kind = $1 AND name = $2`, kind, name)
		return err
	})
	return b, err
}

// NoteRun records what a schedule did last. One that was removed is left alone.
func (s *Store) NoteRun(ctx context.Context, kind seedbed.ScheduleKind, name string, run seedbed.ScheduleRun) error {
	return s.db.Update(ctx, "note the run of "+kind.What()+" "+name, func(tx *sqldb.Tx) error {
		return sqldb.Exec(ctx, tx, `UPDATE schedule SET last = $1 WHERE kind = $2 AND name = $3`, sqldb.AsJSON(run), kind, name)
	})
}

// DeleteSchedule removes a schedule, which must pass the checks. What was made by it stays.
func (s *Store) DeleteSchedule(
	ctx context.Context, kind seedbed.ScheduleKind, name string, checks ...func(seedbed.Schedule) error,
) error {
	return s.db.Update(ctx, "remove "+kind.What()+" "+sqldb.Clean(name, 120), func(tx *sqldb.Tx) error {
		b, err := sqldb.LockOne(ctx, tx, scanSchedule, noSchedule(kind, name),
			`UPDATE schedule SET revision = revision WHERE kind = $1 AND name = $2 RETURNING `+scheduleColumns, kind, name)
		if err == nil {
			err = sqldb.Pass(b, checks)
		}
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM schedule WHERE kind = $1 AND name = $2`, kind, name)
	})
}
