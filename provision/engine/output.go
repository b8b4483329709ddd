package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// When output is written: after this time, or at once when this much has come.
const (
	outputFlush = 500 * time.Millisecond
	outputFull  = 64 * seedbed.KiB
)

// outputBuffer holds the current stage's output that is not written yet.
type outputBuffer struct {
	mu    sync.Mutex
	lines []seedbed.OutputLine
	size  seedbed.Bytes
	timer *time.Timer // nil unless a write is due
	over  bool        // no more lines are accepted
	// writing allows only one write at a time, so that lines stay in order.
	writing sync.Mutex
}

// Output adds a line to the current stage's output. It may be called from any goroutine while the
// stage runs. It blocks on the database if lines come faster than they can be written.
func (t *Task) Output(line seedbed.OutputLine) {
	o := &t.out
	o.mu.Lock()
	if o.over {
		o.mu.Unlock()
		return
	}
	o.lines = append(o.lines, line)
	o.size += seedbed.Bytes(len(line.Text))
	full := o.size >= outputFull
	if !full && o.timer == nil {
		stage := t.stage
		o.timer = time.AfterFunc(outputFlush, func() { t.flush(stage) })
	}
	o.mu.Unlock()
	if full {
		t.flush(t.stage)
	}
}

// endOutput accepts no more lines, drops those that are not being written yet, and waits for a
// write in progress.
func (t *Task) endOutput() {
	t.out.mu.Lock()
	t.out.over, t.out.lines = true, nil
	t.out.mu.Unlock()
	t.flush("")
}

// flush writes the waiting lines. Lines that cannot be written are lost, which does not stop the
// job; a lost job is noticed elsewhere.
func (t *Task) flush(stage string) {
	o := &t.out
	o.writing.Lock()
	defer o.writing.Unlock()
	o.mu.Lock()
	lines := o.lines
	o.lines, o.size = nil, 0
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	o.mu.Unlock()
	for part := range slices.Chunk(lines, 1000) {
		err := t.Write(t.lease.leased, func(ctx context.Context) error { return t.engine.store.LogOutput(ctx, t.Ref, stage, part) })
		switch {
		case errors.Is(err, ErrLost):
			t.lease.end(err)
			return
		case err != nil:
			t.log.Error("record output", "stage", stage, "err", err)
			return
		}
	}
}
