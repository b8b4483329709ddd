package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"seedbed"
	"seedbed/api/client"
	"seedbed/api/wire"
	"seedbed/internal/cli"
	"seedbed/internal/duplex"
)

func vmConsole(a *cli.App) *cobra.Command {
	req := wire.ConsoleRequest{Tail: 16 * seedbed.KiB}
	escape := "^]"
	c := &cobra.Command{
		Use: "console NAME", Short: "Work at an instance's serial console",
		Long: `Work at an instance's serial console: see what its guest writes, and type. It begins with
the end of what the guest has written before. Many can see a console at a time, and one of
them can type: the first, or who takes it over with --take. Ctrl-] leaves, and leaves the
guest as it is, so log out before if you have logged in.

If the input is not a terminal, it is typed as it is, and nothing in it leaves.`,
		RunE: a.Call(func(ctx context.Context, api *client.Client, args []string) error {
			if req.Tail < 0 || req.Tail > seedbed.MaxConsoleTail {
				return cli.Usagef("--tail %s: expected 0 to %s", req.Tail, seedbed.MaxConsoleTail)
			}
			if req.Take && req.ReadOnly {
				return cli.Usagef("--take and --read-only are mutually exclusive: give one")
			}
			key, err := parseEscape(escape)
			if err != nil {
				return err
			}
			conn, err := api.OpenConsole(ctx, args[0], req)
			if err != nil {
				return err
			}
			defer conn.Close()
			s := &sitting{a: a, name: args[0], conn: conn, readOnly: req.ReadOnly, escape: key, out: a.Out, newline: "\n"}
			return s.run(ctx)
		}),
	}
	f := c.Flags()
	f.BoolVar(&req.ReadOnly, "read-only", false, "never type")
	f.BoolVar(&req.Take, "take", false, "take the typing over from who has it")
	f.StringVar(&escape, "escape", escape, "leave with this `KEY`: ^ and a letter or one of [ \\ ] ^ _, or none")
	f.Var(cli.NewSize(&req.Tail), "tail", "how much of the earlier output to show")
	a.OwnOutput(c)
	return c
}

// noEscape is the key that leaves a console if no key does.
const noEscape = -1

// parseEscape parses the name of a control key, such as ^], as the byte that a terminal sends for it.
func parseEscape(s string) (int, error) {
	if s == "none" {
		return noEscape, nil
	}
	if key := strings.ToUpper(s); len(key) == 2 && key[0] == '^' && key[1] >= 'A' && key[1] <= '_' {
		return int(key[1] - '@'), nil
	}
	return 0, cli.Usagef("--escape %q: expected ^ and a letter or one of [ \\ ] ^ _, such as ^], or none", s)
}

// keyName is the inverse of parseEscape, in words.
func keyName(key int) string { return "Ctrl-" + string(rune(key+'@')) }

// sitting is one session at a console.
type sitting struct {
	a        *cli.App
	name     string
	conn     *duplex.Conn
	readOnly bool
	escape   int
	out      io.Writer
	newline  string // of messages: a terminal in raw mode needs more
}

// errEscaped ends a session by the escape key.
var errEscaped = errors.New("escaped")

// run shows and types until the session ends. It restores the terminal.
func (s *sitting) run(ctx context.Context) error {
	if f, ok := s.a.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		former, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return fmt.Errorf("prepare the terminal: %w", err)
		}
		s.newline = "\r\n"
		defer func() {
			_ = term.Restore(int(f.Fd()), former) // the terminal may be gone
		}()
	} else {
		s.escape = noEscape
		if s.a.Terminal {
			s.out = cli.NewSafeWriter(s.a.Out)
		}
	}
	ended := make(chan error, 2)
	go func() { ended <- s.show() }()
	if !s.readOnly || s.escape != noEscape {
		// A read of a terminal cannot be interrupted, so this goroutine ends with the program.
		go func() {
			if err := s.typed(); err != nil {
				ended <- err
			}
		}()
	}
	select {
	case err := <-ended:
		if errors.Is(err, errEscaped) {
			s.say("left the console of %s", s.name)
			return nil
		}
		return err
	case <-ctx.Done():
		return nil // the user has seen enough
	}
}

// say prints a message between the guest's output.
func (s *sitting) say(format string, args ...any) {
	if !s.a.Flags.Quiet {
		fmt.Fprint(s.a.Err, s.newline+"seedbed: "+cli.OneLine(fmt.Sprintf(format, args...))+s.newline)
	}
}

// show shows what comes until the session ends.
func (s *sitting) show() error {
	for {
		m, err := s.conn.Receive()
		if err != nil {
			return seedbed.Errorf(seedbed.ErrUnavailable, "the connection to the console broke: %v", err)
		}
		if !m.Text {
			if _, err := s.out.Write(m.Data); err != nil {
				return err
			}
			continue
		}
		var n seedbed.ConsoleNote
		if err := json.Unmarshal(m.Data, &n); err != nil {
			return fmt.Errorf("the API sent an unknown note: %w", err)
		}
		if n.Note == seedbed.NoteEnd {
			if err := n.Err(); err != nil {
				return err
			}
			s.say("%s", n.Reason)
			return nil
		}
		s.tell(n)
	}
}

// tell tells the user what a note says.
func (s *sitting) tell(n seedbed.ConsoleNote) {
	switch {
	case n.Note == seedbed.NoteLost:
		s.say("%d bytes of output were lost, because they were not read in time", n.Bytes)
	case n.Note == seedbed.NoteBegin && s.escape != noEscape:
		s.say("at the console of %s; %s leaves%s", s.name, keyName(s.escape), s.who(n))
	case n.Note == seedbed.NoteBegin:
		s.say("at the console of %s%s", s.name, s.who(n))
	case n.Note == seedbed.NoteWriter && !s.readOnly:
		s.say("who types now%s", s.who(n))
	}
}

// who returns who may type.
func (s *sitting) who(n seedbed.ConsoleNote) string {
	switch {
	case n.Writing:
		return ": you can type"
	case s.readOnly:
		return ": you only read"
	case n.By != "":
		return ": " + n.By + " types, and you only read (--take takes it over)"
	}
	return ": nobody"
}

// typed sends what is typed. It returns errEscaped after the escape key, and nil at the end of the input.
func (s *sitting) typed() error {
	buf := make([]byte, 4<<10)
	for {
		n, err := s.a.In.Read(buf)
		keys := buf[:n]
		escaped := false
		if s.escape != noEscape {
			keys, _, escaped = bytes.Cut(keys, []byte{byte(s.escape)})
		}
		if len(keys) > 0 && !s.readOnly {
			if _, err := s.conn.Write(keys); err != nil {
				return nil // show finds out
			}
		}
		if escaped {
			return errEscaped
		}
		if err != nil {
			return nil
		}
	}
}
