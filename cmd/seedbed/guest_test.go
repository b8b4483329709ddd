package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"seedbed/internal/lab"
)

// TestGuest runs programs in guests and copies files, at terminals and without.
func TestGuest(t *testing.T) {
	t.Parallel()
	p := scripts()
	p.Dir = filepath.Join("testdata", "guest")
	p.Cmds["terminals"] = terminals
	p.Cmds["modes"] = modes
	p.Cmds["interrupted"] = interrupted
	testscript.Run(t, p)
}

// modes checks what the copies have left: a link, a file that all may read, and a device.
func modes(ts *testscript.TestScript, _ bool, args []string) {
	want := map[string]string{"link": "Lrwxrwxrwx", "out": "-rw-r--r--", "/dev/null": "Dcrw-rw-rw-"}
	for _, name := range args {
		st, err := os.Lstat(ts.MkAbs(name))
		ts.Check(err)
		if got := st.Mode().String(); got != want[name] {
			ts.Fatalf("%s is %s; want %s", name, got, want[name])
		}
	}
}

// interrupted interrupts a program, and takes it up again by the ID that the tool has said.
func interrupted(ts *testscript.TestScript, _ bool, args []string) {
	said := regexp.MustCompile(`sleep goes on in the guest of web1: seedbed vm exec web1 --wait ([0-9]+) waits`)
	for pause := time.Second; ; pause *= 2 { // it may be interrupted before it has the ID
		s := newSeat(ts, args...)
		var text bytes.Buffer
		s.cmd.Stdout, s.cmd.Stderr = nil, &text
		s.start(ts)
		time.Sleep(pause)
		ts.Check(s.cmd.Process.Signal(os.Interrupt))
		ended, ok := errors.AsType[*exec.ExitError](<-s.done)
		if !ok || ended.ExitCode() != 130 {
			ts.Fatalf("it has ended with %v", ended)
		}
		id := said.FindStringSubmatch(text.String())
		if id == nil && pause > lab.Patience {
			ts.Fatalf("it says %q", text.String())
		}
		if id == nil {
			continue
		}
		again := sit(ts, "seedbed", "vm", "exec", "web1", "--wait", id[1], "--timeout", "1s")
		again.shows(ts, "the program "+id[1]+" has not exited within 1s")
		return
	}
}

// terminals has a guest print escape sequences: no terminal gets them unless asked for, and everything else gets every byte.
func terminals(ts *testscript.TestScript, _ bool, _ []string) {
	const red = "\x1b[31m"
	run := func(pipe string, args ...string) (shown, piped string) {
		s := newSeat(ts, append([]string{"seedbed", "vm"}, args...)...)
		var b bytes.Buffer
		switch pipe {
		case "out":
			s.cmd.Stdout = &b
		case "err":
			s.cmd.Stderr = &b
		}
		s.start(ts)
		<-s.done // some fail
		_, err := s.program.WriteString("[end]")
		ts.Check(err)
		for deadline := time.Now().Add(lab.Patience); ; time.Sleep(10 * time.Millisecond) { // between two looks
			s.mu.Lock()
			shown = s.shown.String()
			s.mu.Unlock()
			if strings.Contains(shown, "[end]") {
				return shown, b.String()
			}
			if time.Now().After(deadline) {
				ts.Fatalf("the terminal shows %q", shown)
			}
		}
	}
	for _, tt := range []struct {
		pipe         string
		args         []string
		shown, piped string
		reaches      bool // the escape sequence gets to the terminal
	}{
		{"", []string{"exec", "web1", "--", "echo", red + "out"}, "[31mout", "", false},
		{"", []string{"exec", "web1", "--raw", "--", "echo", red + "out"}, "[31mout", "", true},
		{"", []string{"exec", "web1", "--", "fail"}, "[31mfailed", "", false},
		{"out", []string{"exec", "web1", "--", "fail"}, "[31mfailed", "", false},
		{"out", []string{"exec", "web1", "--", "echo", red + "out"}, "", red + "out\n", false},
		{"err", []string{"exec", "web1", "--", "fail"}, "", "it " + red + "failed\n", false},
		{"", []string{"cp", "web1:/etc/motd", "-"}, "may control the terminal", "", false},
		{"", []string{"cp", "web1:/etc/motd", "-", "--raw"}, "from here", "", false},
		{"out", []string{"cp", "web1:/etc/motd", "-"}, "", "from here\n", false},
	} {
		shown, piped := run(tt.pipe, tt.args...)
		if !strings.Contains(shown, tt.shown) || strings.Contains(shown, red) != tt.reaches || piped != tt.piped {
			ts.Fatalf("%q: the terminal shows %q, and the pipe has %q", tt.args, shown, piped)
		}
	}
}
