package store

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	proc "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

const crashVar = "SEEDBED_STORE_CRASH_TEST"

// lasting is what several tests share, and ends after them.
var lasting lab.Lasting

// TestMain lets the crash test start this program again, as the process to kill.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashVar); path != "" {
		acceptForever(path)
	}
	code := m.Run()
	lasting.End()
	os.Exit(code)
}

// acceptForever accepts jobs and prints the ID of each one after it was accepted.
func acceptForever(path string) {
	ctx := context.Background()
	db, err := Open(ctx, Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	for n := 0; err == nil; n++ {
		var id seedbed.JobID
		if id, err = acceptImport(ctx, db, fmt.Sprintf("image%d", n)); err == nil {
			fmt.Println(id)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Every job that was acknowledged before a SIGKILL exists after it, complete, and the lock of the
// dead process is free.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seedbed.db")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	child := proc.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), crashVar+"="+path)
	child.Stderr = os.Stderr
	out := do(child.StdoutPipe())(t)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []seedbed.JobID
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if acknowledged = append(acknowledged, seedbed.JobID(lines.Text())); len(acknowledged) == 200 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended with %v after %d jobs", err, len(acknowledged))
	}
	db := open(t, path)
	for _, id := range acknowledged {
		j := do(db.Job(ctx, id))(t)
		if events := do(db.Events(ctx, id, 0, 0))(t); len(events) != 1 {
			t.Errorf("job %s has %d events", id, len(events))
		}
		do(db.Image(ctx, j.Subject))(t)
	}
	if jobs, images := do(db.Jobs(ctx, 0))(t), do(db.Images(ctx))(t); len(jobs) != len(images) && len(jobs) < 1000 {
		t.Errorf("%d jobs, %d images", len(jobs), len(images))
	}
}

// The files as they are during work, and as a power failure leaves them, are a database with
// everything that was committed.
func TestCopiedInUse(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	path := filepath.Join(dir, "seedbed.db")
	db := open(t, path)
	id := do(acceptImport(ctx, db, "debian"))(t)
	copied := filepath.Join(dir, "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(copied+suffix, do(os.ReadFile(path+suffix))(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do(open(t, copied).Job(ctx, id))(t)
}
