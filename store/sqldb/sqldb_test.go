package sqldb

import (
	"log/slog"
	"path/filepath"
	"testing"

	"seedbed"
)

// fresh opens a new SQLite database.
func fresh(t *testing.T) *DB {
	t.Helper()
	unrecorded := func(*Tx, *seedbed.Change, string) {}
	db, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "seedbed.db"), Log: slog.New(slog.DiscardHandler)}, unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// do returns v, and fails the test on an error.
func do[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
