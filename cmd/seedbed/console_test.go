package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"seedbed/internal/lab"
	"seedbed/provision/worker/drivertest"
)

// pty returns both ends of a pseudoterminal: the person's and the program's (pts(4)).
func pty() (person, program *os.File, err error) {
	if person, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	n := 0
	if err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		n, err = unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		person.Close()
	}
	return person, program, err
}

// seat is a program at a terminal of its own.
type seat struct {
	person, program *os.File
	cmd             *exec.Cmd
	mu              sync.Mutex
	shown           bytes.Buffer
	done            chan error
}

// sit starts a program at a terminal.
func sit(ts *testscript.TestScript, args ...string) *seat {
	s := newSeat(ts, args...)
	s.start(ts)
	return s
}

// newSeat returns a program that is to be started at a terminal.
func newSeat(ts *testscript.TestScript, args ...string) *seat {
	person, program, err := pty()
	ts.Check(err)
	s := &seat{person: person, program: program, done: make(chan error, 1)}
	s.cmd = exec.Command(filepath.Join(tools, args[0]), args[1:]...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = program, program, program
	for _, name := range []string{"PATH", "HOME", "SEEDBED_SOCKET"} {
		s.cmd.Env = append(s.cmd.Env, name+"="+ts.Getenv(name))
	}
	return s
}

func (s *seat) start(ts *testscript.TestScript) {
	ts.Check(s.cmd.Start())
	go func() { s.done <- s.cmd.Wait() }()
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := s.person.Read(b)
			s.mu.Lock()
			s.shown.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	ts.Defer(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		s.person.Close()
		s.program.Close()
	})
}

// shows waits until the terminal has shown a text, and forgets what it has shown until then.
func (s *seat) shows(ts *testscript.TestScript, want string) {
	for deadline := time.Now().Add(lab.Patience); ; time.Sleep(10 * time.Millisecond) { // between two looks
		s.mu.Lock()
		at := strings.Index(s.shown.String(), want)
		if at >= 0 {
			s.shown.Next(at + len(want))
		}
		all := s.shown.String()
		s.mu.Unlock()
		if at >= 0 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the terminal shows %q, and not %q", all, want)
		}
	}
}

func (s *seat) types(ts *testscript.TestScript, text string) {
	_, err := s.person.WriteString(text)
	ts.Check(err)
}

// raw reports whether the terminal passes each key as it is.
func (s *seat) raw(ts *testscript.TestScript) bool {
	state, err := unix.IoctlGetTermios(int(s.program.Fd()), unix.TCGETS)
	ts.Check(err)
	return state.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

// TestConsole has two people at terminals at one console: the first types, the second takes it over, and each leaves by its
// key, after which its terminal is as before.
func TestConsole(t *testing.T) {
	t.Parallel()
	p := scripts()
	p.Dir = filepath.Join("testdata", "console")
	p.Cmds["sit"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		first := sit(ts, "seedbed", "vm", "console", "web1")
		first.shows(ts, "at the console of web1; Ctrl-] leaves: you can type")
		first.shows(ts, "login: ")
		if !first.raw(ts) {
			ts.Fatalf("the terminal is not in raw mode")
		}
		first.types(ts, "echo hello\r")
		first.shows(ts, "echo hello\r\nhello")
		second := sit(ts, "seedbed", "vm", "console", "web1", "--take", "--escape", "^A")
		second.shows(ts, "login: echo hello\r\nhello") // what was before
		second.shows(ts, "")
		first.shows(ts, "types, and you only read")
		second.types(ts, "\x1decho \x03mine\r") // neither Ctrl-] nor Ctrl-C is its key
		first.shows(ts, "\x1decho \x03mine")
		second.types(ts, "\x01never")
		second.shows(ts, "left the console of web1")
		ts.Check(<-second.done)
		first.shows(ts, "who types now: you can type")
		first.types(ts, "echo again\r")
		first.shows(ts, "echo again\r\nagain")
		first.types(ts, "\x1d")
		first.shows(ts, "left the console of web1")
		ts.Check(<-first.done)
		for _, s := range []*seat{first, second} {
			if s.raw(ts) {
				ts.Fatalf("the terminal stays in raw mode")
			}
		}
	}
	testscript.Run(t, p)
}

// viewers runs seedbed vm vnc with its arguments, and views the screen of web1 twice at once at the address that it prints.
func viewers(ts *testscript.TestScript, _ bool, args []string) {
	deaf := slices.Contains(args, "--deaf") // a viewer that reads nothing, which is not to hold Ctrl-C up
	args = slices.DeleteFunc(args, func(a string) bool { return a == "--deaf" })
	cmd := exec.Command(filepath.Join(tools, "seedbed"), append([]string{"vm", "vnc", "web1"}, args...)...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "SEEDBED_SOCKET"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	defer func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	}()
	at, err := bufio.NewReader(out).ReadString('\n')
	go func() { ended <- cmd.Wait() }()
	ts.Check(err)
	at = strings.TrimSpace(at)
	network := "tcp"
	if !strings.HasPrefix(at, "127.0.0.1:") {
		network, at = "unix", filepath.Join(cmd.Dir, at)
		info, err := os.Stat(at)
		ts.Check(err)
		if info.Mode().Perm() != 0o600 {
			ts.Fatalf("the socket has mode %o", info.Mode().Perm())
		}
	}
	once := slices.Contains(args, "--once")
	for range 2 {
		c, err := net.Dial(network, at)
		ts.Check(err)
		defer c.Close()
		ts.Check(c.SetDeadline(time.Now().Add(lab.Patience)))
		_, err = drivertest.View(c)
		ts.Check(err)
		for range 64 {
			if deaf {
				ts.Check(drivertest.Ask(c)) // for more than the sockets between them hold
			}
		}
		if once {
			c.Close()
			ts.Check(<-ended)
			ended <- nil // for the end
			return
		}
	}
	if deaf {
		time.Sleep(time.Second) // until they are full
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-ended:
		ts.Check(err)
		ended <- nil
	case <-time.After(lab.Patience):
		ts.Fatalf("vm vnc has not ended within %s of the interrupt", lab.Patience)
	}
}

// TestScreen has viewers of VNC at the addresses that the tool opens for them.
func TestScreen(t *testing.T) {
	t.Parallel()
	p := scripts()
	p.Dir = filepath.Join("testdata", "screen")
	p.Cmds["viewers"] = viewers
	testscript.Run(t, p)
}
