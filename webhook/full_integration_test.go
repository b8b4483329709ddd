//go:build integration

package webhook_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/lab"
	"seedbed/store"
	"seedbed/webhook"
)

// On a disk that is full deliveries are put off; what was accepted stays, and with room the one
// that was put off is accepted as a new one.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lab.Tmpfs(t, dir, 8<<20)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "seedbed.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	i, client := installOn(t, db, webhook.Config{}), newClient(t)
	i.change(t, func(h *seedbed.Hook) { h.KeepPayload = true })
	body := func(n int) string { return create(fmt.Sprint("web", n)) + strings.Repeat(" ", 200_000) }
	n, last := 0, reply{status: 202}
	var kept []seedbed.JobID
	for ; last.status == 202 && n < 200; n++ {
		if last = i.send(t, client, fmt.Sprint("msg_", n), body(n)); last.status == 202 {
			kept = append(kept, last.Job)
		}
	}
	if last.status != 503 || last.retryAfter == "" || last.Job != "" || len(kept) == 0 {
		t.Fatalf("delivery %d: %+v, want 503 with Retry-After", n, last)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	again := i.send(t, client, fmt.Sprint("msg_", n-1), body(n-1))
	if again.status != 202 || again.Duplicate {
		t.Errorf("with room: %+v, want 202 and a job of its own", again)
	}
	for _, id := range append(kept, again.Job) {
		if _, err := db.Job(t.Context(), id); err != nil {
			t.Errorf("job %s: %v", id, err)
		}
	}
	if all, err := db.Jobs(t.Context(), 1000); err != nil || len(all) != len(kept)+2 {
		t.Errorf("%d jobs (%v), want the import and %d creates", len(all), err, len(kept)+1)
	}
}
