//go:build integration

package store

import (
	"testing"

	"seedbed/internal/lab"
)

// FreshPostgres returns a function that opens an empty database on a PostgreSQL server.
func FreshPostgres(t *testing.T) func(t *testing.T) *DB {
	t.Helper()
	return migrated(t, lab.EphemeralPostgres(t)).fresh
}

// TwoOnPostgres is like FreshPostgres for two programs on each database.
func TwoOnPostgres(t *testing.T) func(t *testing.T) (one, other *DB) {
	t.Helper()
	s := migrated(t, lab.EphemeralPostgres(t))
	return func(t *testing.T) (one, other *DB) {
		t.Helper()
		name := s.Database(t, s.template)
		return s.use(t, name), s.use(t, name)
	}
}
