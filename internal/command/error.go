package command

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"unicode/utf8"
)

// lineLimit bounds the line of standard error that a message quotes, in bytes.
const lineLimit = 400

// Error is the error of a process that failed.
type Error struct {
	// Program is the name and, if the first argument is a word, that word: "qemu-img convert".
	Program string
	// Status is the exit status, or -1 if a signal ended it or it did not start.
	Status int
	// Signal is the signal that ended it, or zero.
	Signal syscall.Signal
	// Line is the last line of its standard error, printable and bounded.
	Line string
	// Err is the error of the context if that ended it, or why it did not start. Otherwise it is nil.
	Err error
}

// Error says how the process ended, and quotes Line.
func (e *Error) Error() string {
	what := fmt.Sprintf("exit status %d", e.Status)
	switch {
	case e.Err != nil:
		what = e.Err.Error()
	case e.Signal == syscall.SIGXCPU:
		what = "used more processor time than it may"
	case e.Signal == syscall.SIGXFSZ:
		what = "wrote a larger file than it may"
	case e.Signal != 0:
		what = "ended by signal: " + e.Signal.String()
	}
	if e.Line == "" {
		return e.Program + ": " + what
	}
	return e.Program + ": " + what + ": " + e.Line
}

// Unwrap returns the context's error, or why it did not start.
func (e *Error) Unwrap() error { return e.Err }

// program returns the name and, if the first argument is a word, that word.
func (c Command) program() string {
	if len(c.Args) > 0 && c.Args[0] != "" && c.Args[0][0] >= 'a' && c.Args[0][0] <= 'z' {
		return c.Name + " " + c.Args[0]
	}
	return c.Name
}

func failure(ctx context.Context, c Command, cmd *exec.Cmd, err error, stderr []byte) error {
	e := &Error{Program: c.program(), Status: -1, Line: lastLine(stderr)}
	if cmd.ProcessState == nil {
		e.Err = err
		return e
	}
	ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		e.Signal = ws.Signal()
	} else {
		e.Status = ws.ExitStatus()
	}
	switch {
	case ctx.Err() != nil:
		e.Err = ctx.Err()
	case ws.Exited() && ws.ExitStatus() == 0:
		e.Err = err // its output could not be taken
	}
	return e
}

// lastLine returns the last line of text that is not blank, cut to lineLimit. It replaces characters
// that are not printable.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	if i := bytes.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	text = bytes.TrimSpace(text)
	if len(text) > lineLimit {
		text = text[:lineLimit]
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, string(text))
}
