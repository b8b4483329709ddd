package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api"
	"seedbed/api/wire"
	"seedbed/internal/duplex"
)

// consoleWorld is a server with the instance web1, which runs.
func consoleWorld(t *testing.T, change func(*api.Config)) (*server, seedbed.Instance) {
	t.Helper()
	s := start(t)
	c := s.config()
	c.Heartbeat = 20 * time.Millisecond
	if change != nil {
		change(&c)
	}
	s.restart(t, c)
	s.importImage(t, "debian")
	if r := s.do(t, "POST", "/api/v1/instances", `{"name":"web1","image":"debian"}`); r.status != 202 {
		t.Fatalf("%+v", r)
	}
	i, err := s.db.InstanceByName(t.Context(), seedbed.Named(seedbed.DefaultProject, "web1"))
	if err != nil {
		t.Fatal(err)
	}
	return s, i
}

// ticket asks for a ticket to the console of web1.
func (s *server) ticket(t *testing.T, body string, header ...string) wire.Ticket {
	t.Helper()
	r := s.do(t, "POST", "/api/v1/instances/web1/console", body, header...)
	var ticket wire.Ticket
	if err := json.Unmarshal([]byte(r.body), &ticket); err != nil || r.status != 201 {
		t.Fatalf("%+v: %v", r, err)
	}
	return ticket
}

// channel opens what a ticket is for.
func (s *server) channel(t *testing.T, ticket wire.Ticket) *duplex.Conn {
	t.Helper()
	c, err := duplex.Dialer{}.Open(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+ticket.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// attach opens the console of web1, and returns its first note.
func (s *server) attach(t *testing.T, body string, header ...string) (*duplex.Conn, seedbed.ConsoleNote) {
	t.Helper()
	c := s.channel(t, s.ticket(t, body, header...))
	return c, nextNote(t, c)
}

// nextNote returns the next note of a session, without the bytes before it.
func nextNote(t *testing.T, c *duplex.Conn) (n seedbed.ConsoleNote) {
	t.Helper()
	for {
		m, err := c.Receive()
		if err != nil {
			t.Fatalf("instead of a note: %v", err)
		}
		if m.Text {
			if err := json.Unmarshal(m.Data, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
}

// shows waits until a session shows a text.
func shows(t *testing.T, c *duplex.Conn, want string) {
	t.Helper()
	got := ""
	for !strings.Contains(got, want) {
		m, err := c.Receive()
		if err != nil {
			t.Fatalf("got %q, then %v; want %q", got, err, want)
		}
		if !m.Text {
			got += string(m.Data)
		}
	}
}

func typeIn(t *testing.T, c *duplex.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func wantNote(t *testing.T, what string, got, want seedbed.ConsoleNote) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestConsoleSessions has several callers at one console: one types, all see it, and the typing is taken over and given back.
func TestConsoleSessions(t *testing.T) {
	t.Parallel()
	s, _ := consoleWorld(t, nil)
	other := "Bearer " + s.newToken(t, "other", seedbed.RoleOperator)
	first, note := s.attach(t, `{"tail":"1KiB"}`)
	wantNote(t, "the first", note, seedbed.ConsoleNote{Note: "begin", Writing: true})
	shows(t, first, "login: ")
	second, note := s.attach(t, `{"tail":"1KiB"}`, "Authorization", other)
	wantNote(t, "the second", note, seedbed.ConsoleNote{Note: "begin", By: "token admin"})
	shows(t, second, "login: ")
	reader, note := s.attach(t, `{"read_only":true}`)
	wantNote(t, "the reader", note, seedbed.ConsoleNote{Note: "begin", By: "token admin"})

	typeIn(t, second, "echo nothing\r") // which is not read: another types
	typeIn(t, reader, "echo nothing\r")
	typeIn(t, first, "echo hello\r")
	for _, c := range []*duplex.Conn{first, second, reader} {
		shows(t, c, "echo hello\r\nhello")
	}
	third, note := s.attach(t, `{"take":true}`, "Authorization", other)
	wantNote(t, "who takes it", note, seedbed.ConsoleNote{Note: "begin", Writing: true})
	wantNote(t, "whom it is taken from", nextNote(t, first), seedbed.ConsoleNote{Note: "writer", By: "token other"})
	typeIn(t, first, "echo nothing\r")
	typeIn(t, third, "echo mine\r")
	shows(t, first, "echo mine\r\nmine")
	third.Close()
	wantNote(t, "who has it again", nextNote(t, first), seedbed.ConsoleNote{Note: "writer", Writing: true})
	typeIn(t, first, "echo back\r")
	shows(t, first, "echo back\r\nback")
	log, err := s.terminals.Console(t.Context(), web1ID(t, s), seedbed.KiB)
	if err != nil || strings.Contains(string(log), "nothing") {
		t.Errorf("who does not type has typed: %q, %v", log, err)
	}
	for _, c := range []*duplex.Conn{first, second, reader} {
		c.Close()
	}
}

// web1ID returns the ID of web1.
func web1ID(t *testing.T, s *server) seedbed.InstanceID {
	t.Helper()
	i, err := s.db.InstanceByName(t.Context(), seedbed.Named(seedbed.DefaultProject, "web1"))
	if err != nil {
		t.Fatal(err)
	}
	return i.ID
}

// TestConsoleTickets checks what a ticket is good for: one connection.
func TestConsoleTickets(t *testing.T) {
	t.Parallel()
	s, _ := consoleWorld(t, nil)
	ticket := s.ticket(t, `{}`)
	refused := func(what, path string, status int, header http.Header) {
		t.Helper()
		_, err := duplex.Dialer{}.Open(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+path, header)
		if r, ok := errors.AsType[*duplex.Refused](err); !ok || r.Status.StatusCode != status {
			t.Errorf("%s: %v; want status %d", what, err, status)
		}
	}
	if r := s.do(t, "GET", ticket.Path, ""); r.status != 422 { // it is not used by that
		t.Errorf("without a WebSocket: %+v", r)
	}
	c := s.channel(t, ticket)
	wantNote(t, "a ticket", nextNote(t, c), seedbed.ConsoleNote{Note: "begin", Writing: true})
	refused("a ticket that was used", ticket.Path, 404, nil)
	refused("no ticket", "/api/v1/channel?ticket=x", 404, nil)
	refused("a page of another origin", s.ticket(t, `{}`).Path, 422, http.Header{"Origin": {"https://evil.example"}})
	for _, body := range []string{`{"tail":"2MiB"}`, `{"read_only":true,"take":true}`} {
		if r := s.do(t, "POST", "/api/v1/instances/web1/console", body); r.status != 422 {
			t.Errorf("%s: %+v", body, r)
		}
	}
}

// TestConsoleEnds has sessions that end without their callers, who are told why.
func TestConsoleEnds(t *testing.T) {
	t.Parallel()
	t.Run("the instance stops", func(t *testing.T) {
		t.Parallel()
		s, i := consoleWorld(t, nil)
		c, _ := s.attach(t, `{}`)
		if err := s.terminals.DestroyDomain(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
		wantNote(t, "the end", nextNote(t, c), seedbed.ConsoleNote{Note: "end", Reason: "the instance has stopped"})
		if _, err := c.Receive(); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
		c, note := s.attach(t, `{}`)
		if note.Note != "end" || note.Kind != "conflict" || !strings.Contains(note.Reason, "is off") {
			t.Errorf("the console of an instance that is off: %+v", note)
		}
		c.Close()
	})
	t.Run("the token is removed", func(t *testing.T) {
		t.Parallel()
		s, _ := consoleWorld(t, nil)
		c, _ := s.attach(t, `{}`, "Authorization", "Bearer "+s.newToken(t, "gone", seedbed.RoleOperator))
		if r := s.do(t, "DELETE", "/api/v1/tokens/gone", ""); r.status != 204 {
			t.Fatalf("%+v", r)
		}
		if n := nextNote(t, c); n.Note != "end" || n.Kind != "unauthenticated" {
			t.Errorf("%+v", n)
		}
	})
	t.Run("the role no longer has the action", func(t *testing.T) {
		t.Parallel()
		s, _ := consoleWorld(t, nil)
		c, _ := s.attach(t, `{}`, "Authorization", "Bearer "+s.newToken(t, "less", seedbed.RoleOperator))
		if r := s.do(t, "PATCH", "/api/v1/tokens/less", `{"role":"viewer"}`); r.status != 200 {
			t.Fatalf("%+v", r)
		}
		if n := nextNote(t, c); n.Note != "end" || n.Kind != "forbidden" {
			t.Errorf("%+v", n)
		}
	})
	t.Run("nothing is sent", func(t *testing.T) {
		t.Parallel()
		s, _ := consoleWorld(t, func(c *api.Config) { c.ChannelIdle = 50 * time.Millisecond })
		c, _ := s.attach(t, `{}`)
		if n := nextNote(t, c); n.Note != "end" || !strings.Contains(n.Reason, "nothing was typed, shown or copied") {
			t.Errorf("%+v", n)
		}
	})
	t.Run("the worker stops", func(t *testing.T) {
		t.Parallel()
		s, _ := consoleWorld(t, nil)
		c, _ := s.attach(t, `{}`)
		if err := s.terminals.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := nextNote(t, c); n.Note != "end" || n.Kind != "unavailable" {
			t.Errorf("%+v", n)
		}
		c, n := s.attach(t, `{}`)
		if n.Note != "end" || n.Kind != "unavailable" || !strings.Contains(n.Reason, "worker") {
			t.Errorf("without a worker: %+v", n)
		}
		c.Close()
	})
	t.Run("the server stops", func(t *testing.T) {
		t.Parallel()
		s, _ := consoleWorld(t, nil)
		c, _ := s.attach(t, `{}`)
		s.stop()
		if n := nextNote(t, c); n.Note != "end" || !strings.Contains(n.Reason, "seedbedd is stopping") {
			t.Errorf("%+v", n)
		}
	})
}

// TestConsoleLimits opens as many sessions as one caller, and as one console, may have.
func TestConsoleLimits(t *testing.T) {
	t.Parallel()
	s, _ := consoleWorld(t, nil)
	other := "Bearer " + s.newToken(t, "other", seedbed.RoleOperator)
	for range 16 {
		if _, n := s.attach(t, `{}`); n.Note != "begin" {
			t.Fatalf("%+v", n)
		}
	}
	if _, n := s.attach(t, `{}`); n.Kind != "in_use" || !strings.Contains(n.Reason, "token admin may have 16") {
		t.Errorf("one more of the caller: %+v", n)
	}
	if _, n := s.attach(t, `{}`, "Authorization", other); n.Kind != "in_use" || !strings.Contains(n.Reason, "has 16 sessions") {
		t.Errorf("one more at the console: %+v", n)
	}
}

// TestConsoleAudit checks that the audit log has who opened a console, and its end, but nothing that was typed.
func TestConsoleAudit(t *testing.T) {
	t.Parallel()
	s, _ := consoleWorld(t, nil)
	c, _ := s.attach(t, `{"read_only":true}`, "Authorization", "Bearer "+s.newToken(t, "ann", seedbed.RoleOperator))
	c.Close()
	c, _ = s.attach(t, `{}`)
	typeIn(t, c, "echo hunter2\r")
	shows(t, c, "hunter2")
	c.Close()
	want := map[string]int{
		"token ann open the console, to read, of instance web1": 1, "token ann end the console, to read, of instance web1": 1,
		"token admin open the console of instance web1": 1, "token admin end the console of instance web1": 1,
	}
	deadline := time.Now().Add(time.Minute)
	for {
		all, err := s.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, e := range all {
			if strings.Contains(e.What, "console") {
				got[e.Actor+" "+e.What]++
			}
			if strings.Contains(string(e.Asked)+e.What, "hunter2") || e.Request == "" {
				t.Fatalf("%+v", e)
			}
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("audit (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
