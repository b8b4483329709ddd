package worker

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// maxQueue is how many events wait for a slow client.
const maxQueue = 4096

// outbox holds the lines of a running call until the stream takes them. It never blocks the driver:
// it keeps only the latest progress. When it is full, it replaces the waiting events by one resync,
// and drops further lines of output, which a note then counts.
type outbox struct {
	mu     sync.Mutex
	latest *seedbed.Progress
	events []seedbed.DomainEvent
	lines  []seedbed.OutputLine
	lost   int           // lines that did not fit
	wake   chan struct{} // has a capacity of one
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

func (o *outbox) progress(p seedbed.Progress) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latest = &p
	o.ring()
}

func (o *outbox) event(e seedbed.DomainEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) >= maxQueue {
		o.events = append(o.events[:0], seedbed.DomainEvent{Event: "resync", At: time.Now()})
	} else {
		o.events = append(o.events, e)
	}
	o.ring()
}

// output adds a line that a script or command has printed.
func (o *outbox) output(l seedbed.OutputLine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) >= maxQueue {
		o.lost++
	} else {
		o.lines = append(o.lines, l)
	}
	o.ring()
}

func (o *outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take empties the outbox and returns its lines.
func (o *outbox) take() []effects.Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	var lines []effects.Line
	if o.latest != nil {
		lines = append(lines, effects.Line{Progress: o.latest})
		o.latest = nil
	}
	for i := range o.events {
		lines = append(lines, effects.Line{Event: &o.events[i]})
	}
	for i := range o.lines {
		lines = append(lines, effects.Line{Output: &o.lines[i]})
	}
	if o.lost > 0 {
		lines = append(lines, effects.Line{Output: &seedbed.OutputLine{Stream: seedbed.OutputNote,
			Text: fmt.Sprintf("%d lines came too fast and are lost", o.lost)}})
	}
	o.events, o.lines, o.lost = nil, nil, 0
	return lines
}

// encode returns lines as NDJSON; without lines, a blank line.
func encode(lines ...effects.Line) ([]byte, error) {
	if len(lines) == 0 {
		return []byte("\n"), nil
	}
	var all []byte
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		all = append(append(all, b...), '\n')
	}
	return all, nil
}
