package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seedbed"
)

// toldLimit is how many bytes of the beginning of one command's output are reported. The error of a
// failed command has the last line.
const toldLimit = 64 * seedbed.KiB

// teller reports on one command: the command line, its output, and how it ended.
type teller struct {
	give    func(seedbed.OutputLine)
	start   time.Time
	part    []byte
	left    seedbed.Bytes
	dropped seedbed.Bytes
}

// tell starts the report on a command. It returns nil if there is no sink.
func tell(ctx context.Context, c Command) *teller {
	give := seedbed.OutputOf(ctx)
	if give == nil || c.Stderr != nil {
		return nil
	}
	t := &teller{give: give, start: time.Now(), left: toldLimit}
	t.note(c.line())
	return t
}

// line returns the command for people to read. It is not quoted for a shell.
func (c Command) line() string {
	words := []string{c.Name}
	for _, a := range c.Args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == 0x7f }) {
			a = strconv.Quote(a)
		}
		words = append(words, a)
	}
	return seedbed.ClipTo(strings.Join(words, " "), int(seedbed.MaxOutputLine)-len("…"))
}

func (t *teller) note(text string) {
	t.give(seedbed.OutputLine{Stream: seedbed.OutputNote, Text: text})
}

// Write reports standard error. It never fails.
func (t *teller) Write(p []byte) (int, error) {
	n := len(p)
	for {
		at := bytes.IndexAny(p, "\r\n")
		if at < 0 {
			t.add(p)
			return n, nil
		}
		t.add(p[:at])
		t.flush("stderr")
		p = p[at+1:]
	}
}

// add adds a part of a line, up to the maximum length.
func (t *teller) add(p []byte) {
	room := int(seedbed.MaxOutputLine) - len(t.part)
	t.part = append(t.part, p[:min(len(p), room)]...)
}

// flush reports the collected line, unless it is blank or beyond the limit.
func (t *teller) flush(stream string) {
	text := strings.TrimRight(strings.ToValidUTF8(string(t.part), "\ufffd"), " \t")
	t.part = t.part[:0]
	size := seedbed.Bytes(len(text) + 1)
	switch {
	case text == "":
	case t.dropped > 0 || size > t.left:
		t.dropped += size
	default:
		t.left -= size
		t.give(seedbed.OutputLine{Stream: stream, Text: seedbed.ClipTo(text, int(seedbed.MaxOutputLine)-len("…"))})
	}
}

// end reports standard output, unless it is progress or for programs, and how the command ended.
func (t *teller) end(c Command, out Output, err error) {
	if t == nil {
		return
	}
	if t.flush("stderr"); c.Stdout == nil && !forPrograms(out.Stdout) {
		for line := range bytes.Lines(out.Stdout) {
			t.add(bytes.TrimRight(line, "\r\n"))
			t.flush("stdout")
		}
	}
	if t.dropped > 0 {
		t.note(fmt.Sprintf("%s more of the output of %s are left out", t.dropped, c.Name))
	}
	took := time.Since(t.start).Round(time.Millisecond)
	if e, ok := errors.AsType[*Error](err); ok {
		bare := *e
		bare.Line = ""
		t.note(fmt.Sprintf("%s after %s", bare.Error(), took))
		return
	}
	t.note(fmt.Sprintf("%s: ended well after %s", c.program(), took))
}

// forPrograms reports whether a command was asked for JSON.
func forPrograms(out []byte) bool {
	text := bytes.TrimSpace(out)
	return bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("["))
}
