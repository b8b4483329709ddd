package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/store/sqldb"
)

func TestConnections(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	for pool, role := range map[*sql.DB]map[string]string{
		db.sql.Write: {"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "query_only": "0"},
		db.sql.Read:  {"journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "5000", "query_only": "1"},
	} {
		for pragma, want := range role {
			var got string
			if err := pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
			}
		}
		var like bool
		if err := pool.QueryRowContext(t.Context(), "SELECT 'a' LIKE 'A'").Scan(&like); err != nil || like {
			t.Errorf("LIKE ignores case (%v)", err)
		}
	}
	if c := db.Check(t.Context())[0]; !c.OK || !strings.Contains(c.Detail, "SQLite") {
		t.Errorf("check: %+v", c)
	}
	// As on a file system that refuses every write.
	if _, err := db.sql.Write.ExecContext(t.Context(), "PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	if c := db.Check(t.Context())[0]; c.OK || !strings.Contains(c.Detail, "not written") {
		t.Errorf("check of what cannot be written: %+v", c)
	}
	if n := db.sql.Write.Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d writers", n)
	}
}

func TestFileModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a?b#c%20d")
	db := open(t, filepath.Join(dir, "seedbed.db"))
	do(acceptImport(t.Context(), db, "debian"))(t)
	for name, want := range map[string]os.FileMode{
		"": 0o750, "seedbed.db": 0o600, "seedbed.db-wal": 0o600, "seedbed.db-shm": 0o600,
	} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if fi.Mode().Perm() != want {
			t.Errorf("%q has mode %o, want %o", name, fi.Mode().Perm(), want)
		}
	}
}

func TestSecondOpener(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	first := open(t, path)
	_, err := Open(t.Context(), Config{Path: path})
	if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second opener: %v", err)
	}
	do(acceptImport(t.Context(), first, "debian"))(t)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, path)
	do(second.Image(t.Context(), "debian"))(t)
}

// TestOneOwnerByAnyName checks that a database that is in use cannot be opened by another name of
// its file either, nor when files beside it were removed.
func TestOneOwnerByAnyName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, elsewhere := filepath.Join(dir, "seedbed.db"), t.TempDir()
	open(t, path)
	symbolic, hard, linked := filepath.Join(elsewhere, "symbolic"), filepath.Join(elsewhere, "hard"), filepath.Join(elsewhere, "dir")
	if err := errors.Join(os.Symlink(path, symbolic), os.Link(path, hard), os.Symlink(dir, linked)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".lock"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range []string{path, symbolic, hard, filepath.Join(linked, "seedbed.db")} {
		db, err := Open(t.Context(), Config{Path: name})
		if !errors.Is(err, seedbed.ErrInUse) || !strings.Contains(err.Error(), name) {
			t.Errorf("opened as %s: %v, want ErrInUse", name, err)
		}
		if err == nil {
			db.Close()
		}
	}
}

// A database that is newer than the program does not change by a single byte.
func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	do(db.sql.Write.Exec(`UPDATE version SET schema = $1, min_program = $2`, sqldb.Schema+6, sqldb.Schema+5))(t)
	do(db.sql.Write.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, 1)`, sqldb.Schema+6))(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := do(os.ReadFile(path))(t)
	_, err := Open(t.Context(), Config{Path: path})
	if !errors.Is(err, seedbed.ErrVersion) {
		t.Fatalf("opened: %v", err)
	}
	for _, w := range []string{
		path, fmt.Sprintf("schema %d", sqldb.Schema+6), fmt.Sprintf("schema %d", sqldb.Schema+5), fmt.Sprintf("knows %d", sqldb.Schema),
	} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if !bytes.Equal(before, do(os.ReadFile(path))(t)) {
		t.Error("the database was changed")
	}
	raw := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	do(raw.Exec(`UPDATE version SET min_program = 1`))(t)
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	do(open(t, path).Images(t.Context()))(t)
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	raw := do(sqldb.OpenFile(foreign, sqldb.Writer))(t)
	do(raw.Exec(`CREATE TABLE account (id integer)`))(t)
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, foreign, ""} {
		before, _ := os.ReadFile(path)
		_, err := Open(t.Context(), Config{Path: path})
		if !errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), "store.path") {
			t.Errorf("%s: %v", path, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := Open(t.Context(), Config{Path: dir}); err == nil {
		t.Error("a directory was opened")
	}
}

func TestReopened(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	id := do(acceptImport(ctx, db, "debian"))(t)
	before := do(db.FeedPage(ctx, "node", 0, ""))(t)
	j := do(db.ClaimJob(ctx, "one", time.Hour))(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Job(ctx, id); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("read after Close: %v", err)
	}
	if _, err := acceptImport(ctx, db, "x"); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("write after Close: %v", err)
	}
	db = open(t, path)
	if d := cmp.Diff(before, do(db.FeedPage(ctx, "node", 0, ""))(t)); d != "" {
		t.Errorf("generation or key changed:\n%s", d)
	}
	// The lock proves that the owner of the job is dead.
	k := do(db.ClaimJob(ctx, "two", time.Hour))(t)
	if k == nil || k.ID != id || k.Epoch != j.Epoch+1 {
		t.Fatalf("claimed %+v", k)
	}
}

// A full disk refuses writes with ErrUnavailable, loses nothing and allows reads. Writes succeed
// again once there is space.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := fresh(t)
	var pages int
	if err := db.sql.Write.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	do(db.sql.Write.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+20)))(t)
	var kept []seedbed.JobID
	var err error
	for n := 0; err == nil && n < 10000; n++ {
		var id seedbed.JobID
		if id, err = acceptImport(ctx, db, fmt.Sprintf("image%d", n)); err == nil {
			kept = append(kept, id)
		}
	}
	if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "full") || len(kept) == 0 {
		t.Fatalf("after %d jobs: %v", len(kept), err)
	}
	check := func(want int) {
		t.Helper()
		if n := len(do(db.Images(ctx))(t)); n != want {
			t.Errorf("%d images, want %d", n, want)
		}
		for _, id := range kept {
			do(db.Job(ctx, id))(t)
		}
	}
	check(len(kept))
	do(db.sql.Write.Exec(`PRAGMA max_page_count = 1000000`))(t)
	do(acceptImport(ctx, db, "last"))(t)
	check(len(kept) + 1)
	var ok string
	if err := db.sql.Read.QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("integrity: %q %v", ok, err)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	db := open(t, path)
	do(db.sql.Write.Exec(`PRAGMA busy_timeout = 1`))(t)
	other := do(sqldb.OpenFile(path, sqldb.Writer))(t)
	tx := do(other.BeginTx(ctx, nil))(t)
	if _, err := acceptImport(ctx, db, "debian"); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("write while another has the database: %v", err)
	}
	if err := errors.Join(tx.Rollback(), other.Close()); err != nil {
		t.Fatal(err)
	}
	do(acceptImport(ctx, db, "debian"))(t)
}

// The schema too refuses, with the right kind of error, what no method accepts.
func TestConstraints(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := fresh(t)
	do(acceptImport(ctx, db, "debian"))(t)
	for query, want := range map[string]error{
		`INSERT INTO setting (key, value) VALUES ('metadata.token_key', x'00')`:                              seedbed.ErrExists,
		`INSERT INTO job_stage (job, n, name, state, started) VALUES ('none', 1, 'x', 'intent', 1)`:          seedbed.ErrInvalid,
		`INSERT INTO version (one, schema, min_program) VALUES (2, 1, 1)`:                                    seedbed.ErrInvalid,
		`INSERT INTO setting (key, value) VALUES ('x', NULL)`:                                                seedbed.ErrInvalid,
		`INSERT INTO claim (kind, key, job, holder) VALUES ('name', 'web1', 'none', 'x')`:                    seedbed.ErrInvalid,
		`INSERT INTO nic (id, instance, idx, mac, network, addr) VALUES (2147483648, 'x', 0, 'm', 'n', 'a')`: seedbed.ErrInvalid,
	} {
		err := db.sql.Update(ctx, "try", func(tx *sqldb.Tx) error { return sqldb.Exec(ctx, tx, query) })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want kind %v", query, err, want)
		}
	}
}
