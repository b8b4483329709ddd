//go:build integration

package provision

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seedbed/provision/record"

	"seedbed"
	"seedbed/provision/engine"
)

// TestCancelInACopy checks that an import that is cancelled during a long copy ends at once,
// with the real engine, worker and pool, and leaves nothing behind.
func TestCancelInACopy(t *testing.T) {
	t.Parallel()
	w := newWired(t)
	path := filepath.Join(t.TempDir(), "large.raw")
	f, err := os.Create(path)
	w.ok(err)
	_, err = f.WriteAt([]byte{0x55, 0xaa}, 510)
	w.ok(err)
	w.ok(f.Truncate(40 * int64(seedbed.GiB))) // its digest is to be checked, which takes a minute
	w.ok(f.Close())
	id := w.job(w.intake.Import(t.Context(), "large", "default", seedbed.ImportSpec{Path: path, SHA256: strings.Repeat("0", 64)}, usual))
	e := NewEngine(engine.Config{Node: testNode, Poll: 10 * time.Millisecond}, w.db, engine.OneWorker(testNode, w.client), record.Renderer{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	var at seedbed.Event
	w.eventually("progress", func() bool {
		events, err := w.db.Events(t.Context(), id, 0, 0)
		w.ok(err)
		at = events[len(events)-1]
		return at.BytesDone > 0
	})
	if at.BytesTotal < 40*seedbed.GiB || at.BytesDone >= at.BytesTotal || at.Progress > 50 {
		t.Errorf("event %+v", at)
	}
	w.ok(w.db.CancelJob(t.Context(), id))
	began := time.Now()
	w.wait(id, seedbed.JobRolledBack)
	took := time.Since(began)
	t.Logf("it took %s", took)
	if took > promptly {
		t.Errorf("it took %s", took)
	}
	cancel()
	w.ok(<-done)
	if images, err := w.pool.Images(t.Context()); err != nil || len(images) != 0 {
		t.Errorf("left: %v, %v", images, err)
	}
	for _, dir := range []string{"building", "images"} {
		left, err := os.ReadDir(filepath.Join(w.path, dir))
		if err != nil && !os.IsNotExist(err) || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}
