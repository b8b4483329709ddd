package script

import (
	"fmt"
	"strings"
	"sync"

	"seedbed"
)

// maxHeld is how many lines wait while no turn takes them.
const maxHeld = 1024

// lines are what a script puts out, on the way to whoever takes its turn.
type lines struct {
	mu   sync.Mutex
	to   func(seedbed.OutputLine) // nil while there is no turn
	held []seedbed.OutputLine
	lost int
}

func newLines() *lines { return &lines{} }

// add takes one line of a stream; bytes that are no UTF-8 are replaced.
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

// attach has a turn take the lines, first those that have waited.
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
		to(seedbed.OutputLine{Stream: seedbed.OutputNote, Text: fmt.Sprintf("%d lines between two steps are lost", l.lost)})
	}
	l.held, l.lost = nil, 0
}

// detach ends the turn; no line is given to it after the return.
func (l *lines) detach() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = nil
}
