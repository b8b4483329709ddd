package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"seedbed"
)

// eventWait is how long an event may wait to be written with others or with the end of its stage.
const eventWait = 200 * time.Millisecond

// eventBuffer holds a job's events that are not written yet.
type eventBuffer struct {
	mu     sync.Mutex
	events []seedbed.Event
	timer  *time.Timer // nil unless a write is due
	// writing allows only one write at a time, so that events stay in order.
	writing sync.Mutex
}

// Event adds a line to the job's history. A failure to write it does not stop the job; a lost job
// is noticed at its next write.
func (t *Task) Event(level string, progress int, format string, args ...any) {
	t.Record(seedbed.Event{Level: level, Progress: progress, Msg: fmt.Sprintf(format, args...)})
}

// Record adds an event of the current stage, like Event. Events are written after eventWait at the
// latest, or with the end of the stage; warnings and errors are written at once.
func (t *Task) Record(e seedbed.Event) {
	t.reported = e.Progress
	e.Job, e.Stage, e.Msg = t.Job.ID, t.stage, seedbed.ClipTo(e.Msg, 4<<10)
	b := &t.said
	b.mu.Lock()
	e.At = time.Now().UTC()
	b.events = append(b.events, e)
	now := e.Level != "info"
	if !now && b.timer == nil {
		b.timer = time.AfterFunc(eventWait, t.tell)
	}
	b.mu.Unlock()
	if now {
		t.tell()
	}
}

// take removes and returns the waiting events.
func (b *eventBuffer) take() []seedbed.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	events := b.events
	b.events = nil
	return events
}

// withEvents passes the waiting events to do, which writes them with its own data. If do fails,
// they are written separately later.
func (t *Task) withEvents(do func([]seedbed.Event) error) error {
	b := &t.said
	b.writing.Lock()
	defer b.writing.Unlock()
	events := b.take()
	err := do(events)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(events, b.events...)
	}
	return err
}

// tell writes the waiting events.
func (t *Task) tell() {
	b := &t.said
	b.writing.Lock()
	defer b.writing.Unlock()
	for _, e := range b.take() {
		err := t.Write(t.lease.leased, func(ctx context.Context) error { return t.engine.store.LogEvent(ctx, t.Ref, e) })
		switch {
		case errors.Is(err, ErrLost):
			t.lease.end(err)
			return
		case err != nil:
			t.log.Error("record an event", "stage", e.Stage, "err", err)
		}
	}
}
