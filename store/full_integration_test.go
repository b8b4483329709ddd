//go:build integration

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/lab"
)

// A file system that is really full refuses writes, allows reads and loses nothing that was
// acknowledged. Writes succeed again once there is space.
func TestFileSystemFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lab.Tmpfs(t, dir, 8<<20)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), Config{Path: filepath.Join(dir, "seedbed.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var kept []seedbed.JobID
	for n := 0; err == nil && n < 100_000; n++ {
		var id seedbed.JobID
		if id, err = acceptImport(t.Context(), db, fmt.Sprintf("image%d", n)); err == nil {
			kept = append(kept, id)
		}
	}
	if !errors.Is(err, seedbed.ErrUnavailable) || len(kept) == 0 {
		t.Fatalf("after %d jobs: %v", len(kept), err)
	}
	check := func() {
		t.Helper()
		for _, id := range kept {
			do(db.Job(t.Context(), id))(t)
		}
	}
	check()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, do(acceptImport(t.Context(), db, "last"))(t))
	check()
	if n := len(do(db.Images(t.Context()))(t)); n != len(kept) {
		t.Errorf("%d images of %d jobs", n, len(kept))
	}
	var ok string
	if err := db.sql.Read.QueryRow(`PRAGMA integrity_check`).Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("integrity: %q %v", ok, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// The same with PostgreSQL, whose log has space. A refused write is ErrUnavailable, acknowledged
// writes are kept, and writes succeed again once there is space.
func TestPostgresFull(t *testing.T) {
	s := newServer(t)
	dir := lab.Dir(t)
	lab.Tmpfs(t, dir, 64<<20)
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(data, 0o700)); err != nil {
		t.Fatal(err)
	}
	name := s.DatabaseIn(t, s.template, data)
	t.Cleanup(func() { s.DropDatabase(t, name) })
	db := s.use(t, name)
	var free unix.Statfs_t
	if err := unix.Statfs(dir, &free); err != nil {
		t.Fatal(err)
	}
	const left = 256 << 10
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, int64(free.Bavail)*free.Bsize-left), 0o600); err != nil {
		t.Fatal(err)
	}
	var kept []seedbed.JobID
	var err error
	for n := 0; err == nil && n < 100_000; n++ {
		var id seedbed.JobID
		if id, err = acceptImport(t.Context(), db, fmt.Sprintf("image%d", n)); err == nil {
			kept = append(kept, id)
		}
	}
	if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "full") || len(kept) == 0 {
		t.Fatalf("after %d jobs: %v", len(kept), err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, do(acceptImport(t.Context(), db, "last"))(t))
	for _, id := range kept {
		do(db.Job(t.Context(), id))(t)
	}
	if n := len(do(db.Images(t.Context()))(t)); n != len(kept) {
		t.Errorf("%d images of %d jobs", n, len(kept))
	}
}
