package store

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/sqldb"
)

// Orphans from before they were recorded are known after the upgrade, as far as they still exist:
// their stage, and why.
func TestOrphansOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	old := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	migrateTo(t, sqldb.SQLite, old, 16)
	left, gone := seedbed.NewJobID(), seedbed.NewJobID()
	for job, subject := range map[seedbed.JobID]string{left: "debian", gone: "other"} {
		do(old.Exec(`INSERT INTO job (id, kind, state, subject, instance, node, error, created, ended)
			VALUES ($1, 'import', 'rollback_incomplete', $2, '', 'n', 'no room', 1, 3)`, job, subject))(t)
		do(old.Exec(`INSERT INTO job_stage (job, n, name, state, error, started, ended)
			VALUES ($1, 1, 'import', 'orphans', 'no answer', 1, 2000000)`, job))(t)
	}
	do(old.Exec(`INSERT INTO claim (kind, key, job, holder) VALUES ('image', 'debian', $1, 'debian')`, left))(t)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := do(Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)}))(t)
	defer db.Close()
	at := time.UnixMicro(2000000).UTC()
	want := []seedbed.Orphan{{Job: left, Of: seedbed.JobImport, Subject: "debian", Project: "default", Node: "n",
		Stage: "import", Kind: seedbed.OrphanStage, Name: "import", Why: "no answer",
		Since: at, Tries: 20, Tried: at}}
	if d := cmp.Diff(want, do(db.Orphans(t.Context()))(t)); d != "" {
		t.Error(d)
	}
}
