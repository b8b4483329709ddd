package store

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/store/sqldb"
)

// A hook of the first release and its deliveries exist after the upgrade.
func TestHookOfTheFirstRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	old := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	migrateTo(t, sqldb.SQLite, old, 1)
	key, job := bytes.Repeat([]byte{7}, 32), seedbed.NewJobID()
	for _, row := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO hook (name, key, actions, tolerance, created) VALUES ('demo', $1, '["create"]', 300000000, 1)`, []any{key}},
		{`INSERT INTO job (id, kind, state, subject, instance, node, created) VALUES ($1, 'create', 'succeeded', 'web1', 'x', 'n', 1)`,
			[]any{job}},
		{`INSERT INTO delivery (hook, id, sha256, received, job) VALUES ('demo', 'msg_1', $1, 1, $2)`, []any{make([]byte, 32), job}},
	} {
		do(old.Exec(row.query, row.args...))(t)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := do(Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)}))(t)
	defer db.Close()
	want := seedbed.Hook{Name: "demo", Project: seedbed.DefaultProject, Profiles: []string{}, Actions: []string{"create"},
		Tolerance: 5 * time.Minute, Keys: []seedbed.HookKey{{ID: "k1", Secret: key}}}
	want.Scheme = seedbed.SchemeStandard
	if diff := cmp.Diff(want, do(db.Hook(t.Context(), "demo"))(t), cmpopts.IgnoreFields(seedbed.Hook{}, "Created", "Changed")); diff != "" {
		t.Error(diff)
	}
	if d := do(db.Delivery(t.Context(), "demo", "msg_1"))(t); d.Job != job || d.Decision != seedbed.DecisionAccepted {
		t.Errorf("delivery %+v", d)
	}
}
