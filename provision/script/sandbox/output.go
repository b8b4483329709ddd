package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// longest is the maximum length of a line. A longer one becomes several.
const longest = 4096

// maxNotes limits the number of notes.
const maxNotes = 200

// output splits the output of a program into lines, up to its limit.
type output struct {
	mu    sync.Mutex
	take  func(stream string, line []byte)
	left  int64
	limit string
	notes int

	streams []*stream
	wait    sync.WaitGroup
	once    sync.Once
}

func newOutput(s Spec) *output {
	return &output{take: s.Output, left: int64(s.Limits.Output), limit: s.Limits.Output.String()}
}

// pipes makes the write ends for stdout and stderr. They belong to root inside, who can open them
// again as /dev/stdout and /dev/stderr.
func (o *output) pipes(owner uint32) (stdout, stderr *os.File, err error) {
	var w [2]*os.File
	for i, name := range []string{Stdout, Stderr} {
		r, end, err := os.Pipe()
		if err == nil {
			err = end.Chown(int(owner), int(owner))
		}
		if err != nil {
			r.Close()
			end.Close()
			w[0].Close()
			return nil, nil, fmt.Errorf("make a pipe for %s: %w", name, err)
		}
		o.streams, w[i] = append(o.streams, newStream(o, name, r)), end
	}
	return w[0], w[1], nil
}

// read starts reading.
func (o *output) read() {
	for _, s := range o.streams {
		o.wait.Go(s.follow)
	}
}

// drain reads what has been printed so far.
func (o *output) drain(rest bool) {
	for _, s := range o.streams {
		s.drain(rest)
	}
}

// finish waits until all output has been read. The writers have ended by now. The deadline is for a
// writer whose pipe the kernel has not closed yet.
func (o *output) finish() {
	o.once.Do(func() {
		for _, s := range o.streams {
			_ = s.file.SetReadDeadline(time.Now().Add(patience))
		}
		o.wait.Wait()
		for _, s := range o.streams {
			s.file.Close()
		}
	})
}

// runeEnd returns the length of b without an incomplete last character.
func runeEnd(b []byte) int {
	for i := 1; i < utf8.UTFMax && i < len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}

func (o *output) line(stream string, raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left < 0 {
		return
	}
	o.left -= int64(len(raw)) + 1
	if o.left < 0 {
		o.take(Notes, fmt.Appendf(nil, "the output is longer than %s, its limit: the rest is dropped", o.limit))
		return
	}
	text := clean(raw)
	for len(text) > longest {
		cut := runeEnd(text[:longest])
		o.take(stream, text[:cut])
		text = text[cut:]
	}
	o.take(stream, text)
}

// clean returns b as valid UTF-8, without NUL, which databases refuse, and without a carriage return
// at the end.
func clean(raw []byte) []byte {
	raw = bytes.TrimSuffix(raw, []byte{'\r'})
	return bytes.ReplaceAll(bytes.ToValidUTF8(raw, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
}

// note writes a line of the stream Notes.
func (o *output) note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch o.notes++; {
	case o.notes < maxNotes:
		line := clean([]byte(strings.ReplaceAll(text, "\n", " ")))
		o.take(Notes, line[:runeEnd(line[:min(len(line), longest)])])
	case o.notes == maxNotes:
		o.take(Notes, []byte("the sandbox has sent too many notes; further ones are dropped"))
	}
}
