package flags

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/cli"
)

// pty returns both ends of a pseudoterminal: the person's and the program's (pts(4)).
func pty(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// TestPromptHidesSecrets checks that a terminal does not show a secret as it is typed, but shows
// any other value.
func TestPromptHidesSecrets(t *testing.T) {
	t.Parallel()
	person, program := pty(t)
	var said bytes.Buffer
	a := &cli.App{In: program, Err: &said}
	p := newPrompter(a)
	defer p.close()
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	ask := func(d seedbed.Param) { text, err := p.param(d); answers <- answer{text, err} }
	echoes := func() bool {
		state, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return state.Lflag&unix.ECHO != 0
	}
	for _, tt := range []struct {
		param seedbed.Param
		typed string
		shown bool
	}{
		{seedbed.Param{Name: "role", Type: seedbed.ParamString}, "database", true},
		{seedbed.Param{Name: "phrase", Type: seedbed.ParamSecret, Required: true}, "correct horse", false},
	} {
		go ask(tt.param)
		for deadline := time.Now().Add(time.Minute); echoes() != tt.shown; time.Sleep(time.Millisecond) { // between two looks
			if time.Now().After(deadline) {
				t.Fatalf("%s: typing is shown: %v", tt.param.Name, echoes())
			}
		}
		fmt.Fprintln(person, tt.typed)
		if got := <-answers; got.err != nil || got.text != tt.typed {
			t.Errorf("%s: %q, %v", tt.param.Name, got.text, got.err)
		}
		if !echoes() {
			t.Errorf("%s: the terminal stays dark", tt.param.Name)
		}
	}
	fmt.Fprintln(person, "end") // a last line to read up to
	shown := make([]byte, 4096)
	var all strings.Builder
	for !strings.Contains(all.String(), "end") {
		n, err := person.Read(shown)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(shown[:n])
	}
	if !strings.Contains(all.String(), "database") || strings.Contains(all.String(), "horse") || strings.Contains(said.String(), "horse") {
		t.Errorf("the terminal showed %q, and the program said %q", all.String(), said.String())
	}
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	size := seedbed.ParamText("10GiB")
	for want, d := range map[string]seedbed.Param{
		"disk (of the\ufffd data) size [10GiB]: ": {Name: "disk", Type: seedbed.ParamSize, Default: &size, Description: "of the\x1b data"},
		"role db|web: ": {Name: "role", Type: seedbed.ParamEnum, Values: []string{"db", "web"}},
	} {
		if got := question(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
