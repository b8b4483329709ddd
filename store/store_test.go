package store

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"seedbed"
	"seedbed/store/sqldb/sqldbtest"
)

func open(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), Config{Path: path, Log: slog.New(slog.DiscardHandler)})
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

func fresh(t *testing.T) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	if err := sqldbtest.Make(path); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// acceptImport accepts an import job, the smallest kind of request.
func acceptImport(ctx context.Context, db *DB, name string) (seedbed.JobID, error) {
	r, err := db.Accept(ctx, seedbed.Acceptance{
		Job:   seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImport},
		Image: &seedbed.Image{Name: name, Pool: "default", Source: "/img"},
	})
	return r.Job, err
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
