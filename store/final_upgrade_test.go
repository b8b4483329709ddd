package store

import (
	"log/slog"
	"path/filepath"
	"testing"

	"seedbed"
	"seedbed/store/sqldb"
)

// Jobs that had reached a stage that cannot be undone before the upgrade are not cancelled after
// it, and others are.
func TestFinalStagesOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	old := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	migrateTo(t, sqldb.SQLite, old, 21)
	type at struct {
		kind  seedbed.JobKind
		stage string
	}
	final := map[at]bool{
		{seedbed.JobRebuild, "delete"}: true, {seedbed.JobRebuild, "ready"}: false, {seedbed.JobResize, "grow"}: true,
		{seedbed.JobResize, "redefine"}: false, {seedbed.JobCreate, "release-volumes"}: true, {seedbed.JobCreate, "volumes"}: false,
	}
	jobs := map[seedbed.JobID]at{}
	for a := range final {
		id := seedbed.NewJobID()
		jobs[id] = a
		do(old.Exec(`INSERT INTO job
			(id, kind, state, subject, instance, node, stage, epoch, owner, created) VALUES ($1, $2, 'running', $3, '', 'n', $4, 1, 'e', 1)`,
			id, a.kind, id, a.stage))(t)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := do(Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)}))(t)
	defer db.Close()
	for id, a := range jobs {
		if err := db.CancelJob(t.Context(), id); (seedbed.KindName(err) == "conflict") != final[a] || !final[a] && err != nil {
			t.Errorf("cancel at %v: %v, want it refused: %v", a, err, final[a])
		}
	}
}
