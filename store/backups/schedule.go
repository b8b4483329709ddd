package backups

import (
	"cmp"
	"context"
	"errors"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

const scheduleColumns = `name, project, target, cron, profile, tag, revision, created`

func scanSchedule(r sqldb.Row) (s seedbed.BackupSchedule, err error) {
	err = r.Scan(&s.Name, &s.Project, &s.Target, &s.Cron, &s.Profile, &s.Tag, &s.Revision, sqldb.ToTime(&s.Created))
	return s, err
}

// CreateBackupSchedule adds a schedule. It returns ErrInvalid for one that is not valid, or whose target does not exist, and ErrExists if
// there is one of that name.
func (s *Store) CreateBackupSchedule(ctx context.Context, b seedbed.BackupSchedule) (seedbed.BackupSchedule, error) {
	b.Project = cmp.Or(b.Project, seedbed.DefaultProject)
	if err := b.Check(); err != nil {
		return seedbed.BackupSchedule{}, err
	}
	b.Revision, b.Created = 1, sqldb.Now()
	err := s.db.Update(ctx, "create backup schedule "+b.Name, func(tx *sqldb.Tx) error {
		if _, err := access.HoldProject(ctx, tx, b.Project); err != nil {
			return sqldb.Within("backup schedule "+b.Name, err)
		}
		if _, err := lockTarget(ctx, tx, b.Target); errors.Is(err, seedbed.ErrNotFound) {
			return seedbed.Errorf(seedbed.ErrInvalid, "%s", err)
		} else if err != nil {
			return err
		}
		n, err := sqldb.Affect(ctx, tx,
			`INSERT INTO backup_schedule (`+scheduleColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			b.Name, b.Project, b.Target, b.Cron, b.Profile, b.Tag, b.Revision, sqldb.Micros(b.Created))
		if err == nil && n == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "backup schedule %q exists already", b.Name)
		}
		return err
	})
	if err != nil {
		return seedbed.BackupSchedule{}, err
	}
	return b, nil
}

// BackupSchedules returns all schedules sorted by name.
func (s *Store) BackupSchedules(ctx context.Context) (all []seedbed.BackupSchedule, err error) {
	err = s.db.View(ctx, "list backup schedules", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanSchedule, `SELECT `+scheduleColumns+` FROM backup_schedule ORDER BY name`)
		return err
	})
	return all, err
}

func noSchedule(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "backup schedule %q does not exist", sqldb.Clean(name, 120))
}

// BackupSchedule returns the schedule of that name.
func (s *Store) BackupSchedule(ctx context.Context, name string) (b seedbed.BackupSchedule, err error) {
	err = s.db.View(ctx, "read backup schedule", func(tx *sqldb.Tx) error {
		b, err = sqldb.One(ctx, tx, scanSchedule, noSchedule(name), `SELECT `+scheduleColumns+` FROM backup_schedule WHERE name = $1`, name)
		return err
	})
	return b, err
}

// DeleteBackupSchedule removes a schedule, which must pass the checks. The backups that were made by it stay.
func (s *Store) DeleteBackupSchedule(ctx context.Context, name string, checks ...func(seedbed.BackupSchedule) error) error {
	return s.db.Update(ctx, "remove backup schedule "+sqldb.Clean(name, 120), func(tx *sqldb.Tx) error {
		b, err := sqldb.LockOne(ctx, tx, scanSchedule, noSchedule(name),
			`UPDATE backup_schedule SET revision = revision WHERE name = $1 RETURNING `+scheduleColumns, name)
		if err == nil {
			err = sqldb.Pass(b, checks)
		}
		if err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM backup_schedule WHERE name = $1`, name)
	})
}
