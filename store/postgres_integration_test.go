//go:build integration

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store/sqldb"
)

// server is a PostgreSQL server with a migrated database to copy.
type server struct {
	*lab.PostgresServer
	template string
}

// shared is a server that no test stops, fills or configures. To make one takes longer than most tests.
var shared = sync.OnceValue(func() server { return newServer(&lasting) })

// postgresServer returns the server that tests share, each with databases of its own.
func postgresServer(t *testing.T) server {
	t.Helper()
	return shared()
}

// newServer starts a server that ends with the test.
func newServer(t lab.T, settings ...string) server {
	t.Helper()
	return migrated(t, lab.Postgres(t, settings...))
}

// migrated adds a migrated database to a server.
func migrated(t lab.T, of *lab.PostgresServer) server {
	t.Helper()
	s := server{PostgresServer: of}
	s.template = s.Database(t, "")
	if err := Migrate(context.Background(), s.config(s.template)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s server) config(name string) Config {
	return Config{DSN: s.DSN(name), Log: slog.New(slog.DiscardHandler)}
}

// use opens a database for the duration of the test.
func (s server) use(t *testing.T, name string) *DB {
	t.Helper()
	db := do(Open(t.Context(), s.config(name)))(t)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// fresh opens a separate, empty database.
func (s server) fresh(t *testing.T) *DB {
	t.Helper()
	name := s.Database(t, s.template)
	t.Cleanup(func() { s.DropDatabase(t, name) })
	return s.use(t, name)
}

// A database is used only after it was migrated, and never by a program that is too old.
func TestPostgresVersions(t *testing.T) {
	s := postgresServer(t)
	ctx := t.Context()
	refused := func(c Config, kind error, words ...string) {
		t.Helper()
		db, err := Open(ctx, c)
		if err == nil {
			db.Close()
		}
		if !errors.Is(err, kind) {
			t.Fatalf("opened: %v, want kind %v", err, kind)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	}
	name := s.Database(t, "")
	refused(s.config(name), seedbed.ErrVersion, name, "seedbedd migrate")
	// Concurrent migrations run one after the other.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := Migrate(ctx, s.config(name)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	db := s.use(t, name)
	do(acceptImport(ctx, db, "debian"))(t)
	set := func(have, need int) {
		t.Helper()
		do(db.sql.Write.ExecContext(ctx, `UPDATE version SET schema = $1, min_program = $2`, have, need))(t)
	}
	set(sqldb.Schema-1, sqldb.Schema-1)
	refused(s.config(name), seedbed.ErrVersion, "seedbedd migrate", fmt.Sprintf("schema %d", sqldb.Schema-1))
	set(sqldb.Schema+6, sqldb.Schema+5)
	refused(s.config(name), seedbed.ErrVersion, fmt.Sprintf("schema %d", sqldb.Schema+6), fmt.Sprintf("knows %d", sqldb.Schema))
	if err := Migrate(ctx, s.config(name)); !errors.Is(err, seedbed.ErrVersion) {
		t.Errorf("migrated a newer one: %v", err)
	}
	set(sqldb.Schema+6, sqldb.Schema)
	do(s.use(t, name).Image(ctx, "debian"))(t)

	other := s.Database(t, "")
	foreign := do(sqldb.OpenPool(do(sqldb.ParseDSN(s.DSN(other)))(t), nil))(t)
	do(foreign.ExecContext(ctx, `CREATE TABLE account (id bigint)`))(t)
	if err := foreign.Close(); err != nil {
		t.Fatal(err)
	}
	refused(s.config(other), seedbed.ErrInvalid, "another program")
	if err := Migrate(ctx, s.config(other)); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("migrated another program's: %v", err)
	}
	refused(s.config("none"), seedbed.ErrUnavailable, "none")
}

// Two processes use one database. Neither ends the other's leases, and each is notified of the
// other's writes.
func TestPostgresTwoProcesses(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	name := s.Database(t, s.template)
	one := s.use(t, name)
	if c := one.Check(ctx)[0]; !c.OK || !strings.Contains(c.Detail, "PostgreSQL 15") || !strings.Contains(c.Detail, name) {
		t.Errorf("check: %+v", c)
	}
	id := do(acceptImport(ctx, one, "debian"))(t)
	j := do(one.ClaimJob(ctx, "one", time.Hour))(t)
	two := s.use(t, name)
	if k := do(two.ClaimJob(ctx, "two", time.Hour))(t); k != nil {
		t.Fatalf("the job of another was taken: %+v", k)
	}
	if err := one.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: "still mine"}); err != nil {
		t.Fatal(err)
	}
	hinted := func(write func()) {
		t.Helper()
		for {
			hint := two.Hint()
			write()
			select {
			case <-hint:
				return
			case <-time.After(time.Second): // it may not be listening yet
			case <-ctx.Done():
				t.Fatal("no hint")
			}
		}
	}
	event := func() {
		for one.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: "line"}) != nil && ctx.Err() == nil {
		}
	}
	hinted(event)
	// After the connection was lost it listens again.
	s.Restart(t, "fast")
	event()
	hinted(event)
	if got := do(two.Job(ctx, id))(t); got.Owner != "one" {
		t.Errorf("owner %q", got.Owner)
	}
}

// While the server is down every call returns ErrUnavailable in time. Afterwards the store works
// without a new Open, and acknowledged writes are kept.
func TestPostgresRestarted(t *testing.T) {
	s := newServer(t)
	ctx := t.Context()
	db := s.use(t, s.Database(t, s.template))
	var mu sync.Mutex
	var kept []seedbed.JobID
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id, err := acceptImport(ctx, db, fmt.Sprintf("image%d-%d", w, n))
				switch {
				case err == nil:
					mu.Lock()
					kept = append(kept, id)
					mu.Unlock()
				case !errors.Is(err, seedbed.ErrUnavailable):
					t.Errorf("kind of %v", err)
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(kept)
	}
	for _, mode := range []string{"immediate", "fast", "smart, then fast"} {
		before := count()
		if mode == "smart, then fast" {
			s.Close()
			lab.Await(t, lab.Patience, "writes of those who are connected", func() bool { return count() > before+20 })
			before, mode = count(), "fast"
		}
		s.Restart(t, mode)
		lab.Await(t, lab.Patience, "writes after the restart", func() bool { return count() > before+20 })
	}
	close(stop)
	writers.Wait()
	seen := map[seedbed.JobID]bool{}
	for _, id := range kept {
		if seen[id] {
			t.Errorf("job %s was acknowledged twice", id)
		}
		seen[id] = true
		do(db.Job(ctx, id))(t)
	}
}

// No error contains a password.
func TestPostgresSecret(t *testing.T) {
	s := postgresServer(t)
	for _, dsn := range []string{
		s.DSN("none") + " password=hunter2",
		"postgres://seedbed:hunter2@127.0.0.1:1/x?connect_timeout=1",
		"postgres://seedbed:hunter2@127.0.0.1:port/x",
		"host='x password=hunter2",
	} {
		_, err := Open(t.Context(), Config{DSN: dsn})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("opened: %v", err)
		}
	}
}

// An image counts in the project of its qualified name with PostgreSQL too.
func TestPostgresQualifiedImagesCount(t *testing.T) {
	checkQualifiedImages(t, postgresServer(t).fresh(t))
}
