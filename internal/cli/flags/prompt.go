package flags

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/cli"
)

// prompter prompts for values and reads them from standard input.
type prompter struct {
	a  *cli.App
	in *bufio.Reader
	// quiet turns off, or on again, the terminal's echo of what is typed. It is nil if the input is
	// not a terminal.
	quiet func(hidden bool) error
}

// newPrompter returns a prompter for the program's input. Its close restores the terminal's echo.
func newPrompter(a *cli.App) *prompter {
	p := &prompter{a: a, in: bufio.NewReader(a.In)}
	if f, ok := a.In.(*os.File); ok && cli.IsTerminal(f) {
		p.quiet = func(hidden bool) error { return echo(int(f.Fd()), !hidden) }
	}
	return p
}

func (p *prompter) close() {
	if p.quiet != nil {
		_ = p.quiet(false) // the terminal may be gone
	}
}

// echo turns a terminal's echo on or off (termios(3)).
func echo(fd int, on bool) error {
	state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("hide the input: %w", err)
	}
	state.Lflag &^= unix.ECHO
	if on {
		state.Lflag |= unix.ECHO
	}
	return unix.IoctlSetTermios(fd, unix.TCSETS, state)
}

// param prompts for a parameter until the value is valid. An empty answer means no value, which is
// valid unless the parameter is required.
func (p *prompter) param(d seedbed.Param) (string, error) {
	for {
		fmt.Fprint(p.a.Err, question(d))
		text, err := p.line(d.Type == seedbed.ParamSecret)
		if err != nil {
			return "", fmt.Errorf("param %s: %w", d.Name, err)
		}
		switch {
		case text == "" && !d.Required:
			return "", nil
		case text == "":
			fmt.Fprintln(p.a.Err, "it is required")
			continue
		}
		if _, err := d.Parse(text); err != nil {
			fmt.Fprintln(p.a.Err, err)
			continue
		}
		return text, nil
	}
}

func question(d seedbed.Param) string {
	q := d.Name
	if d.Description != "" {
		q += " (" + cli.Printable(d.Description) + ")"
	}
	kind := string(d.Type)
	if d.Type == seedbed.ParamEnum {
		kind = strings.Join(d.Values, "|")
	}
	q += " " + kind
	if d.Default != nil {
		q += " [" + cli.Printable(string(*d.Default)) + "]"
	}
	return q + ": "
}

// errNoInput is the error at the end of the input.
var errNoInput = errors.New("the input has ended")

// line reads a line. With hidden, the terminal does not show it.
func (p *prompter) line(hidden bool) (string, error) {
	if hidden && p.quiet != nil {
		if err := p.quiet(true); err != nil {
			return "", err
		}
		defer func() {
			_ = p.quiet(false) // the terminal may be gone
			fmt.Fprintln(p.a.Err)
		}()
	}
	text, err := p.in.ReadString('\n')
	if err == io.EOF && text == "" {
		return "", errNoInput
	}
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.TrimRight(text, "\r\n"), nil
}
