package hook

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"seedbed"
)

// lines splits a script's output into lines and passes on a limited number of them.
type lines struct {
	mu   sync.Mutex
	give func(seedbed.OutputLine)
	left seedbed.Bytes
	// dropped is how much exceeded the limit.
	dropped seedbed.Bytes
	latest  string
	streams []*stream
}

func newLines(give func(seedbed.OutputLine)) *lines {
	if give == nil {
		give = func(seedbed.OutputLine) {}
	}
	return &lines{give: give, left: seedbed.MaxOutput}
}

// stream is one of a script's streams. Lines of different streams are not mixed.
type stream struct {
	all  *lines
	name string
	part []byte
	cut  bool // the rest of this line is left out
}

func (l *lines) stream(name string) *stream {
	s := &stream{all: l, name: name}
	l.streams = append(l.streams, s)
	return s
}

// Write never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	n := len(p)
	for {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			s.add(p)
			return n, nil
		}
		s.add(p[:at])
		s.flush()
		p = p[at+1:]
	}
}

// add takes a part of a line, up to the most that is kept of one.
func (s *stream) add(p []byte) {
	room := int(seedbed.MaxOutputLine) - len("…") - len(s.part)
	if len(p) > room {
		p, s.cut = p[:max(0, room)], true
	}
	s.part = append(s.part, p...)
}

// flush passes the line on. The caller must hold the lock.
func (s *stream) flush() {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(s.part), "\r"), "\ufffd")
	if most := int(seedbed.MaxOutputLine) - len("…"); len(text) > most { // replacement characters make it longer
		text, s.cut = strings.ToValidUTF8(text[:most], ""), true
	}
	if s.cut {
		text += "…"
	}
	s.part, s.cut = s.part[:0], false
	if strings.TrimSpace(text) != "" {
		s.all.latest = text
	}
	size := seedbed.Bytes(len(text) + 1)
	if s.all.dropped > 0 || size > s.all.left {
		s.all.dropped += size
		return
	}
	s.all.left -= size
	s.all.give(seedbed.OutputLine{Stream: s.name, Text: text})
}

// end passes on an unfinished last line, and says how much was left out.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.streams {
		if len(s.part) > 0 {
			s.flush()
		}
	}
	if l.dropped > 0 {
		l.give(seedbed.OutputLine{Stream: seedbed.OutputNote, Text: fmt.Sprintf("%s more of the hook script's output was left out", l.dropped)})
	}
	l.give = func(seedbed.OutputLine) {}
}

// last returns the last line that was not blank, printable and bounded.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 400
	text := strings.TrimSpace(l.latest)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, text)
}
