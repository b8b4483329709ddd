package store

import (
	"database/sql"
	"fmt"
	"testing"

	"seedbed"
	"seedbed/store/sqldb"
)

// gone is an instance that was removed before the upgrade.
const gone = seedbed.InstanceID("ec2aaaaa-0000-4000-8000-000000000013")

// fillWithSnapshots migrates an empty database to schema 26, and inserts two instances and the jobs that have
// taken and removed snapshots of them.
func fillWithSnapshots(t *testing.T, d sqldb.Dialect, db *sql.DB) {
	t.Helper()
	migrateTo(t, d, db, 26)
	for n, id := range []seedbed.InstanceID{runningBefore, makingBefore} {
		if _, err := db.Exec(`INSERT INTO instance (id, project, name, profile, image, node, state, vcpus, memory, ready, held, ssh_keys,
				report_token, revision, created, changed)
			VALUES ($1, 'default', $2, 'small', '', 'n', 'running', 1, 268435456, 'started', 0, '[]', '', 1, 7, 7)`,
			id, fmt.Sprintf("web%d", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	for n, j := range []struct {
		kind     seedbed.JobKind
		state    seedbed.JobState
		instance seedbed.InstanceID
		spec     any
	}{
		{seedbed.JobSnapshot, seedbed.JobSucceeded, makingBefore, `{"name":"replaced"}`},
		{seedbed.JobRebuild, seedbed.JobSucceeded, makingBefore, `{"image":"other"}`},
		{seedbed.JobSnapshot, seedbed.JobSucceeded, runningBefore, `{"name":"kept"}`},
		{seedbed.JobSnapshot, seedbed.JobFailed, runningBefore, `{"name":"kept"}`},
		{seedbed.JobSnapshotRemove, seedbed.JobFailed, runningBefore, `{"name":"kept"}`},
		{seedbed.JobRebuild, seedbed.JobRolledBack, runningBefore, `{}`},
		{seedbed.JobSnapshot, seedbed.JobSucceeded, runningBefore, `{"name":"removed"}`},
		{seedbed.JobSnapshotRemove, seedbed.JobSucceeded, runningBefore, `{"name":"removed"}`},
		{seedbed.JobSnapshot, seedbed.JobSucceeded, runningBefore, `{"name":"again"}`},
		{seedbed.JobSnapshotRemove, seedbed.JobSucceeded, runningBefore, `{"name":"again"}`},
		{seedbed.JobSnapshot, seedbed.JobSucceeded, runningBefore, `{"name":"again"}`},
		{seedbed.JobSnapshot, seedbed.JobRolledBack, runningBefore, `{"name":"undone"}`},
		{seedbed.JobSnapshot, seedbed.JobIncomplete, runningBefore, `{"name":"left"}`},
		{seedbed.JobSnapshot, seedbed.JobRunning, makingBefore, `{"name":"running"}`},
		{seedbed.JobSnapshot, seedbed.JobSucceeded, gone, `{"name":"gone"}`},
		{seedbed.JobStart, seedbed.JobSucceeded, runningBefore, nil},
		{seedbed.JobBackup, seedbed.JobSucceeded, gone, `{}`},
		{seedbed.JobBackup, seedbed.JobFailed, gone, `{}`},
	} {
		if _, err := db.Exec(`INSERT INTO job (id, kind, state, subject, instance, spec, node, created)
				VALUES ($1, $2, $3, 'x', $4, $5, 'n', $6)`,
			fmt.Sprintf("00000000-0000-7000-8000-%012d", n), j.kind, j.state, j.instance, j.spec, n+1); err != nil {
			t.Fatal(err)
		}
	}
}

// checkSnapshots expects that the snapshots which are still there are recorded.
func checkSnapshots(t *testing.T, db *DB) {
	t.Helper()
	for name, of := range map[string]seedbed.InstanceID{
		"kept": runningBefore, "again": runningBefore, "left": runningBefore, "running": makingBefore,
	} {
		if !do(db.HasSnapshot(t.Context(), of, name))(t) {
			t.Errorf("the snapshot %s is not recorded", name)
		}
	}
	if u := do(db.ProjectUse(t.Context(), seedbed.DefaultProject))(t); u.Snapshots != 4 {
		t.Errorf("%d snapshots: want 4", u.Snapshots)
	}
}

// TestUpgradeRecordsSnapshots opens a database whose snapshots were only in the pools and in the jobs.
func TestUpgradeRecordsSnapshots(t *testing.T) {
	t.Parallel()
	db := upgraded(t, fillWithSnapshots)
	checkSnapshots(t, db)
	checkReferences(t, db)
	of := do(db.BackupOwners(t.Context(), []seedbed.InstanceID{gone, runningBefore, "other"}))(t)
	if len(of) != 2 || of[gone].Project != seedbed.DefaultProject || of[gone].Removed.IsZero() || !of[runningBefore].Removed.IsZero() {
		t.Errorf("backups are those of %+v", of)
	}
}
