//go:build integration

package store

import (
	"database/sql"
	"errors"
	"testing"

	"seedbed"
	"seedbed/store/sqldb"
)

// The same with PostgreSQL, which is migrated by command.
func TestPostgresUpgradeOfTheFirstRelease(t *testing.T) {
	s := postgresServer(t)
	name := s.Database(t, "")
	pool := do(sqldb.OpenPool(do(sqldb.ParseDSN(s.DSN(name)))(t), nil))(t)
	firstRelease(t, sqldb.Postgres, pool)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err := Open(t.Context(), s.config(name)); !errors.Is(err, seedbed.ErrVersion) {
		if err == nil {
			db.Close()
		}
		t.Fatalf("opened before it was migrated: %v", err)
	}
	if err := Migrate(t.Context(), s.config(name)); err != nil {
		t.Fatal(err)
	}
	checkFirstRelease(t, s.use(t, name))
}

// upgradedPostgres is upgraded with PostgreSQL, which is migrated by command.
func upgradedPostgres(t *testing.T, fill func(*testing.T, sqldb.Dialect, *sql.DB)) *DB {
	t.Helper()
	s := postgresServer(t)
	name := s.Database(t, "")
	pool := do(sqldb.OpenPool(do(sqldb.ParseDSN(s.DSN(name)))(t), nil))(t)
	fill(t, sqldb.Postgres, pool)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), s.config(name)); err != nil {
		t.Fatal(err)
	}
	return s.use(t, name)
}

// The profiles of both kinds become one kind with PostgreSQL too.
func TestPostgresUpgradeToOneKindOfProfile(t *testing.T) {
	checkOneKind(t, upgradedPostgres(t, fillTwoKinds))
}

// Everything belongs to the default project with PostgreSQL too.
func TestPostgresUpgradeToProjects(t *testing.T) {
	var unchanged func(*testing.T, *sql.DB)
	db := upgradedPostgres(t, func(t *testing.T, d sqldb.Dialect, old *sql.DB) { unchanged = fillWithoutProjects(t, d, old) })
	unchanged(t, db.sql.Write)
	checkWithProjects(t, db)
}

// What all projects use is published to all with PostgreSQL too.
func TestPostgresUpgradeToPublished(t *testing.T) {
	checkPublished(t, upgradedPostgres(t, fillUnpublished))
}

// Names get their project with PostgreSQL too.
func TestPostgresUpgradeToQualifiedNames(t *testing.T) {
	checkQualifiedNames(t, upgradedPostgres(t, fillWithNames))
}

// Snapshots are recorded with PostgreSQL too.
func TestPostgresUpgradeRecordsSnapshots(t *testing.T) {
	checkSnapshots(t, upgradedPostgres(t, fillWithSnapshots))
}

// Schedules of backups stay with PostgreSQL too.
func TestPostgresUpgradeKeepsSchedules(t *testing.T) {
	checkSchedules(t, upgradedPostgres(t, fillWithBackupSchedules))
}

// The guests of nodes that are cordoned are told with PostgreSQL too.
func TestPostgresUpgradeOfCordonedNode(t *testing.T) {
	checkCordoned(t, upgradedPostgres(t, fillCordoned))
}
