package store

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
	"seedbed/store/sqldb"
)

// The key of an endpoint that was created before keys had versions still signs.
func TestEndpointKeyOfBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	old := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	migrateTo(t, sqldb.SQLite, old, 18)
	key := bytes.Repeat([]byte{7}, 32)
	do(old.Exec(`INSERT INTO endpoint (name, url, events, cloudevents, allow_private, insecure, enabled, created)
		VALUES ('ci', 'https://ci.example/', '["*"]', 0, 0, 0, 1, 1)`))(t)
	do(old.Exec(`INSERT INTO endpoint_key (endpoint, id, key, created) VALUES ('ci', 'a', $1, 1)`, key))(t)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db := do(Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)}))(t)
	defer db.Close()
	e := do(db.Endpoint(t.Context(), "ci"))(t)
	want := []seedbed.EndpointKey{{ID: "a", Version: seedbed.SignV1, Key: key}}
	if diff := cmp.Diff(want, e.Keys, cmpopts.IgnoreFields(seedbed.EndpointKey{}, "Created")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{seedbed.SignV1}, e.Signs()); diff != "" {
		t.Error(diff)
	}
}
