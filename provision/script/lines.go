package script

import (
	"fmt"
	"strings"
	"sync"

	"seedbed"
)

// maxHeld is how many lines are kept while no turn takes them.
const maxHeld = 1024

// lines passes a script's output to the turn that takes it.
type lines struct {
	mu   sync.Mutex
	to   func(seedbed.OutputLine) // nil without a turn
	held []seedbed.OutputLine
	lost int
}

func newLines() *lines { return &lines{} }

// add takes one line of a stream and replaces bytes that are not UTF-8.
func (l *lines) add(stream string, line []byte) {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	l.line(seedbed.OutputLine{Stream: stream, Text: text})
}

func (l *lines) line(line seedbed.OutputLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.to != nil:
		l.to(line)
	case len(l.held) < maxHeld:
		l.held = append(l.held, line)
	default:
		l.lost++
	}
}

// attach passes the lines to a turn, beginning with those that were kept.
func (l *lines) attach(to func(seedbed.OutputLine)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to = to; to == nil {
		return
	}
	for _, line := range l.held {
		to(line)
	}
	if l.lost > 0 {
		to(seedbed.OutputLine{Stream: seedbed.OutputNote, Text: fmt.Sprintf("%d lines between two steps were lost", l.lost)})
	}
	l.held, l.lost = nil, 0
}

// detach ends the turn. No line is passed to it after detach has returned.
func (l *lines) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = nil
}
