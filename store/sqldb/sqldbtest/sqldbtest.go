// Package sqldbtest makes the databases that tests of the store begin with.
package sqldbtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"seedbed/store/sqldb"
)

// Make makes the SQLite file of a migrated, empty store at path.
func Make(path string) error {
	empty, err := migrated()
	if err != nil {
		return err
	}
	return os.WriteFile(path, empty, 0o600)
}

// migrated returns the SQLite file of an empty store. The migrations take most of the time of a small test, so they run once.
var migrated = sync.OnceValues(func() (empty []byte, err error) {
	dir, err := os.MkdirTemp("", "seedbed-testdb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "seedbed.db")
	db, err := sqldb.Open(context.Background(), sqldb.Config{Path: path, Log: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
