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

// Levels of a finding: an error fails every job of the script, a hint may be as it is meant.
const (
	Error = "error"
	Hint  = "hint"
)

// Finding is one thing that the check says of a script.
type Finding struct {
	Line  int    `json:"line"` // 0: of the whole
	Level string `json:"level"`
	Text  string `json:"text"`
}

//go:embed check.py
var checker string

// checkTimeout is what the check of a script that is as long as may be takes at most, on a slow
// machine.
const checkTimeout = 30 * time.Second

// ErrNoInterpreter is returned if this Python is not installed: only CheckText was done.
var ErrNoInterpreter = errors.New("no Python interpreter")

// CheckText finds what makes a text no script, whatever the language: that it
// is empty, too long, not UTF-8, or has a NUL byte.
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

// Check finds what is wrong with a script without running any of it: its
// syntax, that it has one of the two forms, its steps' parameters, and imports
// of names that the library does not have; with hints at what is often meant
// otherwise. It is read by the interpreter (a name or a path), isolated from
// the environment. ErrNoInterpreter where that is not to be had.
func Check(ctx context.Context, interpreter string, text []byte) ([]Finding, error) {
	if found := CheckText(text); found != nil {
		return found, nil
	}
	path, err := exec.LookPath(interpreter)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoInterpreter, err)
	}
	surface, err := tree.ReadFile("lib/seedbed/_surface.py")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-I", "-B", "-X", "utf8", "-c", string(surface)+"\n"+checker)
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

// invalid is where text stops being UTF-8, -1 if nowhere.
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

// line is the number of the line that has the byte at this place.
func line(text []byte, at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }
