package store

import (
	"database/sql"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/sqldb"
)

// fillWithBackupSchedules migrates an empty database to the schema that had schedules of backups only. It inserts two of them, and an
// instance with a snapshot.
func fillWithBackupSchedules(t *testing.T, d sqldb.Dialect, db *sql.DB) {
	t.Helper()
	migrateTo(t, d, db, 57)
	for _, query := range []string{
		`INSERT INTO project (name, number, description, quota, revision, created, changed) VALUES ('acme', '000000000002', '', '{}', 1, 1, 1)`,
		`INSERT INTO backup_target (name, settings, secret, identity, name_key, revision, created, changed)
			VALUES ('nas', '{"path":"/srv/backups"}', '', '', '', 1, 1, 1)`,
		`INSERT INTO backup_schedule (name, project, target, cron, profile, tag, revision, created)
			VALUES ('nightly', 'default', 'nas', '0 3 * * *', '', 'backup="all" \ of it', 1, 7000000)`,
		`INSERT INTO backup_schedule (name, project, target, cron, profile, tag, revision, created)
			VALUES ('acme/weekly', 'acme', 'nas', '@weekly', 'small', '', 2, 8000000)`,
		`INSERT INTO instance (id, project, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys,
			report_token, revision, created, changed)
			VALUES ('` + string(runningBefore) + `', 'default', 'web1', 'small', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 7, 7)`,
		`INSERT INTO job (id, kind, state, subject, instance, node, created)
			VALUES ('00000000-0000-7000-8000-000000000001', 'snapshot', 'succeeded', 'web1', '` + string(runningBefore) + `', 'n', 1)`,
		`INSERT INTO snapshot (instance, name, job) VALUES ('` + string(runningBefore) + `', 'mine', '00000000-0000-7000-8000-000000000001')`,
	} {
		do(db.Exec(query))(t)
	}
}

// checkSchedules expects the schedules of fillWithBackupSchedules, and that its snapshot is that of no schedule.
func checkSchedules(t *testing.T, db *DB) {
	t.Helper()
	ctx := t.Context()
	want := []seedbed.Schedule{
		{Kind: seedbed.ScheduleBackup, Name: "acme/weekly", Project: "acme", Target: "nas", Cron: "@weekly",
			ScheduleSettings: seedbed.ScheduleSettings{Profile: "small"}, Revision: 2, Created: time.Unix(8, 0).UTC()},
		{Kind: seedbed.ScheduleBackup, Name: "nightly", Project: "default", Target: "nas", Cron: "0 3 * * *",
			ScheduleSettings: seedbed.ScheduleSettings{Tag: `backup="all" \ of it`}, Revision: 1, Created: time.Unix(7, 0).UTC()},
	}
	if d := cmp.Diff(want, do(db.Schedules(ctx))(t)); d != "" {
		t.Errorf("schedules (-want +got):\n%s", d)
	}
	for _, s := range want {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	if !do(db.HasSnapshot(ctx, runningBefore, "mine"))(t) || len(do(db.ScheduledSnapshots(ctx))(t)) > 0 {
		t.Error("the snapshot is gone, or is that of a schedule")
	}
	if err := db.DeleteBackupTarget(ctx, "nas"); err == nil {
		t.Error("a target that schedules have can be removed")
	}
}

// TestUpgradeKeepsSchedules opens a database whose schedules were of backups only.
func TestUpgradeKeepsSchedules(t *testing.T) {
	t.Parallel()
	db := upgraded(t, fillWithBackupSchedules)
	checkSchedules(t, db)
	checkReferences(t, db)
}
