package python

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
	"unicode/utf8"

	"seedbed"
)

// The levels of a finding. An error fails every job of the script; a hint may be intended.
const (
	Error = "error"
	Hint  = "hint"
)

// Finding is one remark of the check about a script.
type Finding struct {
	Line  int    `json:"line"` // 0: about the whole script
	Level string `json:"level"`
	Text  string `json:"text"`
}

// checker is the check, and surface is the part of the library that it needs.
var (
	//go:embed check.py
	checker string
	//go:embed lib/seedbed/_surface.py
	surface string
)

// checkTimeout bounds the check, even for a script of the maximum length on a slow host.
const checkTimeout = 30 * time.Second

// ErrNoInterpreter is returned if this Python is not installed: only CheckText was done.
var ErrNoInterpreter = errors.New("no Python interpreter")

// CheckText finds faults that do not depend on the language: a text that is empty, too long or not
// UTF-8, or that has a NUL byte.
func CheckText(text []byte) []Finding {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return []Finding{{0, Error, "it is empty"}}
	case len(text) > int(seedbed.MaxDocument):
		return []Finding{{0, Error, fmt.Sprintf("it has %d bytes: at most %s are kept", len(text), seedbed.MaxDocument)}}
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return []Finding{{line(text, at), Error, "it has a NUL byte"}}
	}
	if at := invalid(text); at >= 0 {
		return []Finding{{line(text, at), Error, fmt.Sprintf("it is not UTF-8: byte %#x", text[at])}}
	}
	return nil
}

// Check finds faults of a script without running it: in its syntax, its form, the parameters of its
// steps, and imports of names that the library does not have. It adds hints about what is often a
// mistake. The interpreter (a name or a path) parses the script, isolated from the environment.
// Check returns ErrNoInterpreter if it is not installed.
func Check(ctx context.Context, interpreter string, text []byte) ([]Finding, error) {
	if found := CheckText(text); found != nil {
		return found, nil
	}
	path, err := exec.LookPath(interpreter)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoInterpreter, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-I", "-B", "-X", "utf8", "-c", surface+"\n"+checker)
	cmd.Stdin = bytes.NewReader(text)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("check by %s: %w: %s", path, err, bytes.TrimSpace(stderr.Bytes()))
	}
	found := []Finding{}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("check by %s: %w", path, err)
	}
	return found, nil
}

// invalid returns the offset at which text stops being UTF-8, or -1.
func invalid(text []byte) int {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// line returns the number of the line that contains the byte at that offset.
func line(text []byte, at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }
