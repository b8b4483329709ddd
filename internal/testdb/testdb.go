// Package testdb opens the store that tests of other packages work on: a new
// SQLite file, or, where [OnPostgres] runs them again, a new PostgreSQL database.
package testdb

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"seedbed/internal/lab"
	"seedbed/internal/sample"
	"seedbed/store"
	"seedbed/store/sqldb/sqldbtest"
)

// The variables by which a test binary that runs again knows the server.
const (
	dsnVar     = "SEEDBED_TEST_POSTGRES"
	copyingVar = "SEEDBED_TEST_COPYING" // the clause that copies the migrated database
)

// Open opens an empty store of the test's own. Closing it is the test's to do,
// before it ends.
func Open(t testing.TB) *store.DB {
	t.Helper()
	return open(t, Empty(t))
}

// Empty is where an empty store of the test's own is, for those who open it
// themselves, such as a process that is to be killed.
func Empty(t testing.TB) store.Config {
	t.Helper()
	c := store.Config{Path: filepath.Join(t.TempDir(), "seedbed.db"), Log: slog.New(slog.DiscardHandler)}
	if dsn := os.Getenv(dsnVar); dsn != "" {
		c.DSN = newDatabase(t, dsn)
		return c
	}
	if err := sqldbtest.Make(c.Path); err != nil {
		t.Fatal(err)
	}
	return c
}

// OpenPostgres opens an empty store on a server that the test has.
func OpenPostgres(t testing.TB, s *lab.PostgresServer) *store.DB {
	t.Helper()
	c := store.Config{DSN: s.DSN(s.Database(t, "")), Log: slog.New(slog.DiscardHandler)}
	if err := store.Migrate(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return open(t, c)
}

// OpenDSN opens the store in a database that has been migrated.
func OpenDSN(t testing.TB, dsn string) *store.DB {
	t.Helper()
	return open(t, store.Config{DSN: dsn, Log: slog.New(slog.DiscardHandler)})
}

func open(t testing.TB, c store.Config) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

var made atomic.Int64

// newDatabase makes a copy of the migrated database, until the test ends, and returns its DSN.
func newDatabase(t testing.TB, dsn string) string {
	t.Helper()
	do := func(statement string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, dsn+" dbname=postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	name := fmt.Sprintf("again%d", made.Add(1))
	do("CREATE DATABASE " + name + " " + os.Getenv(copyingVar))
	t.Cleanup(func() { do("DROP DATABASE " + name + " WITH (FORCE)") })
	return dsn + " dbname=" + name
}

// OnPostgres runs n of the tests of this binary again with a PostgreSQL server of their own as their
// store, or all of them with SEEDBED_LONG=1. It needs root.
func OnPostgres(t *testing.T, n int) {
	t.Helper()
	s := lab.EphemeralPostgres(t)
	template := s.Database(t, "")
	if err := store.Migrate(t.Context(), store.Config{DSN: s.DSN(template), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	chosen := sample.Of(t, tests(t), n)
	limit := 25 * time.Minute
	if end, ok := t.Deadline(); ok {
		limit = time.Until(end)
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.count=1", "-test.timeout="+limit.String(),
		"-test.run=^("+strings.Join(chosen, "|")+")$")
	again.Env = append(os.Environ(), dsnVar+"="+s.DSN("postgres"), copyingVar+"="+s.Copying(template))
	out, err := again.CombinedOutput()
	if err != nil {
		t.Errorf("on PostgreSQL: %v\n%s", err, quiet(out))
	}
	if passed := strings.Count(string(out), "\n--- PASS: "); passed != len(chosen) && err == nil {
		t.Errorf("%d tests passed on PostgreSQL, not %d", passed, len(chosen))
	}
}

// tests returns the names of the tests of this binary, except those that bring a PostgreSQL server.
func tests(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.list=^Test").Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool { return strings.Contains(name, "Postgres") })
}

// quiet leaves out what a verbose run says of tests that go on or have passed.
func quiet(out []byte) string {
	var all []string
	for line := range strings.Lines(string(out)) {
		if word := strings.TrimSpace(line); !strings.HasPrefix(word, "=== ") && !strings.HasPrefix(word, "--- PASS") {
			all = append(all, line)
		}
	}
	return strings.Join(all, "")
}
