package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"
)

// withAgent makes a domain that runs, with an agent.
func (l *lab) withAgent(t *testing.T) (seedbed.InstanceID, *drivertest.GuestAgent) {
	t.Helper()
	id, agent := l.running(t), drivertest.NewGuestAgent()
	l.domain.SetAgent(id, agent.Answer)
	return id, agent
}

func (l *lab) exec(t *testing.T, id seedbed.InstanceID, c seedbed.GuestCommand) (seedbed.GuestProcess, error) {
	t.Helper()
	return effects.GuestExec.Ask(t.Context(), l.Client, effects.GuestCommand{ID: id, Command: c})
}

// waitFor waits for a program in a guest.
func (l *lab) waitFor(t *testing.T, id seedbed.InstanceID, p seedbed.GuestProcess) (seedbed.GuestProcess, error) {
	t.Helper()
	if p.Exited || p.Stdout != nil {
		t.Errorf("the answer to the beginning has an end: %+v", p)
	}
	return effects.GuestWait.Ask(t.Context(), l.Client, effects.GuestProcess{ID: id, Process: p.ID})
}

func TestGuestPrograms(t *testing.T) {
	t.Parallel()
	l := start(t)
	id, agent := l.withAgent(t)
	for _, tt := range []struct {
		ask  seedbed.GuestCommand
		want seedbed.GuestProcess
	}{
		{seedbed.GuestCommand{Path: "echo", Arguments: []string{"a", "b c"}}, seedbed.GuestProcess{Stdout: []byte("a b c\n")}},
		{seedbed.GuestCommand{Path: "cat", Data: []byte("\x00in")}, seedbed.GuestProcess{Stdout: []byte("\x00in")}},
		{seedbed.GuestCommand{Path: "fail"}, seedbed.GuestProcess{ExitCode: 3, Stderr: []byte("it \x1b[31mfailed\n")}},
		{seedbed.GuestCommand{Path: "killed"}, seedbed.GuestProcess{Signal: 9, Truncated: true}},
	} {
		begun, err := l.exec(t, id, tt.ask)
		must(t, tt.ask.Path, err)
		got, err := l.waitFor(t, id, begun)
		must(t, tt.ask.Path, err)
		again, err := l.waitFor(t, id, begun) // the agent has forgotten it
		must(t, tt.ask.Path, err)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%s, once more (-first +then):\n%s", tt.ask.Path, diff)
		}
		tt.want.Exited, tt.want.ID = true, got.ID
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.ask.Path, diff)
		}
	}
	begun, err := l.exec(t, id, seedbed.GuestCommand{Path: "sleep"})
	must(t, "sleep", err)
	if p, err := l.waitFor(t, id, begun); err != nil || p.Exited {
		t.Fatalf("a program that goes on: %+v, %v", p, err)
	}
	agent.End(7)
	if p, err := l.waitFor(t, id, begun); err != nil || p.ExitCode != 7 {
		t.Errorf("its end: %+v, %v", p, err)
	}
	_, err = effects.GuestWait.Ask(t.Context(), l.Client, effects.GuestProcess{ID: id, Process: begun.ID + 1000})
	if !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "does not know the program any more") {
		t.Errorf("a program that it does not know: %v; want ErrConflict that says so", err)
	}
}

// TestGuestProgramWhoseAnswerIsLate has who asked leave before the agent answers: the next one gets the answer that the agent
// gives only once.
func TestGuestProgramWhoseAnswerIsLate(t *testing.T) {
	t.Parallel()
	l := start(t)
	id, agent := l.withAgent(t)
	begun, err := l.exec(t, id, seedbed.GuestCommand{Path: "echo", Arguments: []string{"late"}})
	must(t, "echo", err)
	asked, answer := make(chan struct{}), make(chan struct{})
	l.domain.SetAgent(id, func(request []byte) ([]byte, error) {
		close(asked) // a second question panics
		<-answer
		return agent.Answer(request)
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := effects.GuestWait.Ask(ctx, l.Client, effects.GuestProcess{ID: id, Process: begun.ID})
		left <- err
	}()
	<-asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who has left: %v", err)
	}
	close(answer)
	if p, err := l.waitFor(t, id, begun); err != nil || string(p.Stdout) != "late\n" {
		t.Errorf("the next one: %+v, %v", p, err)
	}
}

// TestGuestProgramsThatFail has programs that cannot be run, and agents that lie.
func TestGuestProgramsThatFail(t *testing.T) {
	t.Parallel()
	l := start(t)
	id, _ := l.withAgent(t)
	fine := seedbed.GuestCommand{Path: "echo"}
	for _, tt := range []struct {
		name string
		id   seedbed.InstanceID
		ask  seedbed.GuestCommand
		want error
		text string
	}{
		{"no such domain", seedbed.NewInstanceID(), fine, seedbed.ErrNotFound, ""},
		{"no ID", "x", fine, seedbed.ErrInvalid, ""},
		{"no agent", l.shown(t), fine, seedbed.ErrConflict, "no guest agent"},
		{"no program", id, seedbed.GuestCommand{Path: "none"}, seedbed.ErrConflict, "Failed to execute"},
		{"no path", id, seedbed.GuestCommand{}, seedbed.ErrInvalid, "path"},
		{"too many arguments", id, seedbed.GuestCommand{Path: "echo", Arguments: []string{strings.Repeat("x", 70<<10)}}, seedbed.ErrInvalid,
			"64KiB"},
		{"a zero byte", id, seedbed.GuestCommand{Path: "echo", Arguments: []string{"a\x00b"}}, seedbed.ErrInvalid, "zero byte"},
		{"too much input", id, seedbed.GuestCommand{Path: "cat", Data: make([]byte, 64<<10+1)}, seedbed.ErrInvalid, "64KiB"},
		{"too large a request", id, seedbed.GuestCommand{Path: "cat", Data: make([]byte, 64<<10),
			Arguments: []string{strings.Repeat("\x01", 60<<10)}}, seedbed.ErrInvalid, "expected at most 160KiB"},
		{"all the input", id, seedbed.GuestCommand{Path: "cat", Data: make([]byte, 64<<10), Arguments: []string{
			strings.Repeat("x", 60<<10)}}, nil, ""},
	} {
		if _, err := l.exec(t, tt.id, tt.ask); !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v; want %v with %q", tt.name, err, tt.want, tt.text)
		}
	}
	l.domain.SetAgent(id, func(request []byte) ([]byte, error) {
		if strings.Contains(string(request), "guest-exec-status") {
			return []byte(`{"return":{"exited":true,"out-data":"` + strings.Repeat("AAAA", 3<<20) + `"}}`), nil
		}
		return []byte(`{"return":{"pid":7}}`), nil
	})
	begun, err := l.exec(t, id, fine)
	must(t, "begin", err)
	if p, err := l.waitFor(t, id, begun); !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "too much") {
		t.Errorf("too much output: %+v, %v", p, err)
	}
	for _, lie := range []string{``, `[]`, `{"return":{}}`, `{"return":7}`, `{"return":{"pid":"x"}}`, `{"return":{"pid":null}}`,
		`{"return":` + strings.Repeat("[", 20000), `{"return":"` + strings.Repeat("x", 9<<20) + `"}`} {
		l.domain.SetAgent(id, func([]byte) ([]byte, error) { return []byte(lie), nil })
		if p, err := l.exec(t, id, fine); !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%.40q: %+v, %v; want ErrConflict", lie, p, err)
		}
		p, err := effects.GuestWait.Ask(t.Context(), l.Client, effects.GuestProcess{ID: id, Process: 7})
		if !errors.Is(err, seedbed.ErrConflict) {
			t.Errorf("%.40q: %+v, %v; want ErrConflict", lie, p, err)
		}
	}
}

// TestGuestProgramThatPrintsTooMuch has programs whose output is lost on the way. The first question says so, because the agent
// gives it once.
func TestGuestProgramThatPrintsTooMuch(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.running(t)
	for name, status := range map[string]func() ([]byte, error){
		"the worker's limit": func() ([]byte, error) {
			return []byte(`{"return":{"exited":true,"out-data":"` + strings.Repeat("AAAA", 3<<20) + `"}}`), nil
		},
		"the driver's limit": func() ([]byte, error) { return nil, seedbed.Errorf(seedbed.ErrTooLargeAnswer, "no room") },
	} {
		asked := false
		l.domain.SetAgent(id, func(request []byte) ([]byte, error) {
			switch {
			case !strings.Contains(string(request), "guest-exec-status"):
				return []byte(`{"return":{"pid":7}}`), nil
			case asked:
				return nil, seedbed.Errorf(seedbed.ErrConflict, "PID 7 does not exist")
			}
			asked = true
			return status()
		})
		begun, err := l.exec(t, id, seedbed.GuestCommand{Path: "yes"})
		must(t, "yes", err)
		p, err := l.waitFor(t, id, begun)
		if !errors.Is(err, seedbed.ErrConflict) || !strings.Contains(err.Error(), "the program has printed more than about 2 MiB") {
			t.Errorf("%s: %+v, %v; want ErrConflict that says what is lost", name, p, err)
		}
	}
}

// file opens the copy of a file.
func (l *lab) file(t *testing.T, f seedbed.GuestFile) *duplex.Stream {
	t.Helper()
	c, err := effects.OpenGuestFile.Open(t.Context(), l.Client, f)
	must(t, "open", err)
	t.Cleanup(c.Close)
	return &duplex.Stream{Conn: c}
}

func TestGuestFiles(t *testing.T) {
	t.Parallel()
	l := start(t)
	id, agent := l.withAgent(t)
	text := strings.Repeat("0123456789", 50_000)
	to := l.file(t, seedbed.GuestFile{ID: id, Path: "/a", Write: true})
	if _, err := io.WriteString(to, text); err != nil {
		t.Fatal(err)
	}
	must(t, "end", to.Send(duplex.Message{Text: true, Data: seedbed.ConsoleNote{Note: seedbed.NoteEnd}.JSON()}))
	if _, err := io.ReadAll(to); err != nil {
		t.Fatalf("write: %v", err)
	}
	if got, _ := agent.File("/a"); got != text {
		t.Errorf("%d bytes arrived; want %d", len(got), len(text))
	}
	got, err := io.ReadAll(l.file(t, seedbed.GuestFile{ID: id, Path: "/a"}))
	if err != nil || string(got) != text {
		t.Errorf("read: %d bytes, %v; want %d", len(got), err, len(text))
	}
	agent.SetFile("/empty", "")
	if got, err := io.ReadAll(l.file(t, seedbed.GuestFile{ID: id, Path: "/empty"})); err != nil || len(got) > 0 {
		t.Errorf("an empty file: %q, %v", got, err)
	}
	for _, tt := range []struct {
		file seedbed.GuestFile
		want error
	}{
		{seedbed.GuestFile{ID: id, Path: "/none"}, seedbed.ErrConflict},
		{seedbed.GuestFile{ID: id}, seedbed.ErrInvalid},
		{seedbed.GuestFile{ID: "x", Path: "/a"}, seedbed.ErrInvalid},
		{seedbed.GuestFile{ID: l.shown(t), Path: "/a"}, seedbed.ErrConflict},
	} {
		if _, err := io.ReadAll(l.file(t, tt.file)); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v; want %v", tt.file, err, tt.want)
		}
	}
	left := l.file(t, seedbed.GuestFile{ID: id, Path: "/b", Write: true})
	if _, err := io.WriteString(left, "half"); err != nil {
		t.Fatal(err)
	}
	left.Close()
	for deadline := time.Now().Add(time.Minute); agent.Opened() > 0; time.Sleep(10 * time.Millisecond) { // between two looks
		if time.Now().After(deadline) {
			t.Fatalf("%d files stay open in the guest", agent.Opened())
		}
	}
}

// TestGuestFilesOfLiars reads and writes files of agents whose answers cannot be: each copy ends by an error.
func TestGuestFilesOfLiars(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.running(t)
	for _, lie := range []string{`{"buf-b64":"` + strings.Repeat("AAAA", 40<<10) + `"}`, `{"count":0}`, `{"count":-1,"buf-b64":"%"}`,
		`{"count":9999999}`, `7`} {
		for _, write := range []bool{false, true} {
			l.domain.SetAgent(id, func(request []byte) ([]byte, error) {
				if strings.Contains(string(request), "guest-file-open") {
					return []byte(`{"return":1}`), nil
				}
				return fmt.Appendf(nil, `{"return":%s}`, lie), nil
			})
			f := l.file(t, seedbed.GuestFile{ID: id, Path: "/a", Write: write})
			if write {
				_, _ = io.WriteString(f, "text") // the end says how it went
			}
			if _, err := io.ReadAll(f); !errors.Is(err, seedbed.ErrConflict) {
				t.Errorf("%.40q: %v; want ErrConflict", lie, err)
			}
		}
	}
}
