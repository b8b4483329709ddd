//go:build integration && libvirt

package e2e

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/duplex"
	"seedbed/internal/lab"
)

// consoleUserData gives the guest's console a shell.
const consoleUserData = `#!/bin/sh
(while :; do
	setsid sh -c 'echo SHELL READY; exec sh -i </dev/ttyS0 >/dev/ttyS0 2>&1'
	sleep 1
done) &
`

// visitor is a session at a console, and what it has shown.
type visitor struct {
	*duplex.Conn
	mu    sync.Mutex
	shown strings.Builder
	notes []seedbed.ConsoleNote
	done  chan struct{}
}

func listen(t *testing.T, s *lab.Stack, name string, r wire.ConsoleRequest) *visitor {
	t.Helper()
	conn, err := s.API.OpenConsole(t.Context(), name, r)
	if err != nil {
		t.Fatal(err)
	}
	l := &visitor{Conn: conn, done: make(chan struct{})}
	t.Cleanup(func() {
		conn.Close()
		<-l.done
	})
	go func() {
		defer close(l.done)
		for {
			m, err := conn.Receive()
			if err != nil {
				return
			}
			l.mu.Lock()
			if m.Text {
				var n seedbed.ConsoleNote
				_ = json.Unmarshal(m.Data, &n) // a note of another form is none that is waited for
				l.notes = append(l.notes, n)
			} else {
				l.shown.Write(m.Data)
			}
			l.mu.Unlock()
		}
	}()
	return l
}

// shows waits until a session has shown a text.
func (l *visitor) shows(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Logf("the console shows %q, and notes %+v", l.shown.String(), l.notes)
		}
	})
	lab.Await(t, longest, "the console shows "+text, func() bool {
		select {
		case <-l.done:
			if !l.has(text) {
				t.Fatal("the session has ended")
			}
		default:
		}
		return l.has(text)
	})
}

// has reports whether a session has shown a text.
func (l *visitor) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.shown.String(), text)
}

// TestConsoleOfRealGuest works at the console of a real guest: types a command and reads its answer, which another session
// reads as well, until the guest is switched off.
func TestConsoleOfRealGuest(t *testing.T) {
	beside(t)
	image := lab.SmallGuestImage(t)
	host := lab.NewHost(t)
	host.Libvirt()
	s := lab.NewStack(t, lab.StackOptions{Host: host})
	addImage(t, s, "small", image)
	addProfile(t, s, seedbed.Profile{Name: "shell", Image: "small", VCPUs: 1, Memory: 256 * seedbed.MiB,
		UserData: []byte(consoleUserData), Ready: seedbed.ReadyStarted})
	if out, stderr, status := s.CLI("create", "guest1", "--profile", "shell"); status != 0 {
		t.Fatalf("create: status %d: %s%s", status, out, stderr)
	}
	first := listen(t, s, "guest1", wire.ConsoleRequest{Tail: 64 * seedbed.KiB})
	second := listen(t, s, "guest1", wire.ConsoleRequest{ReadOnly: true})
	first.shows(t, "SHELL READY")
	// The shell drops what is typed before it reads.
	var last time.Time
	lab.Await(t, longest, "the shell answers", func() bool {
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			if _, err := first.Write([]byte("echo the answer is $((6*7))\r")); err != nil {
				t.Fatal(err)
			}
		}
		return first.has("the answer is 42")
	})
	second.shows(t, "the answer is 42")
	lab.Await(t, lab.Patience, "the log has it as well", func() bool {
		out, _, status := s.CLI("vm", "log", "guest1")
		return status == 0 && strings.Contains(out, "the answer is 42")
	})
	if out, stderr, status := s.CLI("vm", "stop", "guest1", "--force"); status != 0 {
		t.Fatalf("stop: status %d: %s%s", status, out, stderr)
	}
	for _, l := range []*visitor{first, second} {
		<-l.done
		l.mu.Lock()
		if n := l.notes[len(l.notes)-1]; n.Note != seedbed.NoteEnd || n.Kind != "" {
			t.Errorf("the last note is %+v", n)
		}
		l.mu.Unlock()
	}
	removeInstance(t, s, "guest1")
}
