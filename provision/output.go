package provision

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// The pace at which output is written: so often, and at once when so much has come.
const (
	outputFlush = 500 * time.Millisecond
	outputFull  = 64 * seedbed.KiB
)

// outputBuffer holds what the stage in hand has put out since it was last written.
type outputBuffer struct {
	mu    sync.Mutex
	lines []seedbed.OutputLine
	size  seedbed.Bytes
	timer *time.Timer // nil unless a write is due
	over  bool        // nothing is taken any more
	// writing keeps two writes apart, so that lines stay in order.
	writing sync.Mutex
}

// output adds a line to what the stage in hand has put out. It may be called from
// any goroutine while the stage runs, and waits for the database when lines come
// quicker than they can be written.
func (t *task) output(line seedbed.OutputLine) {
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

// endOutput takes no more lines, and waits for those that are being written.
func (t *task) endOutput() {
	t.out.mu.Lock()
	t.out.over, t.out.lines = true, nil
	t.out.mu.Unlock()
	t.flush("")
}

// flush writes the lines that have come. What cannot be written is lost, which
// does not stop the job; a lost job is noticed.
func (t *task) flush(stage string) {
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
		err := t.write(t.lease.leased, func(ctx context.Context) error { return t.engine.store.LogOutput(ctx, t.ref, stage, part) })
		switch {
		case errors.Is(err, errLost):
			t.lease.end(err)
			return
		case err != nil:
			t.log.Error("record output", "stage", stage, "err", err)
			return
		}
	}
}
