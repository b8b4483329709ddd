package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
	"seedbed/provision/fleet"
)

// running makes a domain that runs.
func (l *lab) running(t *testing.T) seedbed.InstanceID {
	t.Helper()
	id := seedbed.NewInstanceID()
	must(t, "define", l.domain.DefineDomain(t.Context(), seedbed.DomainSpec{ID: id, Name: "web1", Job: "test"}))
	must(t, "start", l.domain.StartDomain(t.Context(), id))
	return id
}

// session opens a session at a console, and returns its first note.
func (l *lab) session(t *testing.T, s seedbed.ConsoleSession) (*duplex.Conn, seedbed.ConsoleNote) {
	t.Helper()
	c, err := effects.OpenConsole.Open(t.Context(), l.Client, s)
	must(t, "open", err)
	t.Cleanup(c.Close)
	m, err := c.Receive()
	must(t, "receive", err)
	var n seedbed.ConsoleNote
	must(t, "note", json.Unmarshal(m.Data, &n))
	return c, n
}

// TestSlowSession has a session that does not read while a guest writes: it loses output, and is told how much, and another
// session has everything at once.
func TestSlowSession(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.running(t)
	fast, _ := l.session(t, seedbed.ConsoleSession{ID: id})
	slow, _ := l.session(t, seedbed.ConsoleSession{ID: id})
	const chunk, chunks = 32 << 10, 400
	text := strings.Repeat("x", chunk)
	read := func(c *duplex.Conn) (bytes, lost int64) {
		t.Helper()
		m, err := c.Receive()
		must(t, "receive", err)
		if !m.Text {
			return int64(len(m.Data)), 0
		}
		var n seedbed.ConsoleNote
		if err := json.Unmarshal(m.Data, &n); err != nil || n.Note != seedbed.NoteLost {
			t.Fatalf("%s, %v", m.Data, err)
		}
		return 0, n.Bytes
	}
	for range chunks {
		l.domain.Write(id, text)
		for got := int64(0); got < chunk; {
			bytes, lost := read(fast)
			if lost > 0 {
				t.Fatalf("the fast session has lost %d bytes", lost)
			}
			got += bytes
		}
	}
	var got, missed int64
	for got+missed < chunk*chunks {
		bytes, lost := read(slow)
		got, missed = got+bytes, missed+lost
	}
	if missed == 0 || got+missed != chunk*chunks {
		t.Errorf("the slow session got %d bytes, and lost %d, of %d", got, missed, chunk*chunks)
	}
}

// TestSessionsThatFail has sessions that cannot be, each of which says why.
func TestSessionsThatFail(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.running(t)
	for _, tt := range []struct {
		name string
		ask  seedbed.ConsoleSession
		want error
	}{
		{"no such domain", seedbed.ConsoleSession{ID: seedbed.NewInstanceID()}, seedbed.ErrNotFound},
		{"no ID", seedbed.ConsoleSession{ID: "x"}, seedbed.ErrInvalid},
		{"too long a tail", seedbed.ConsoleSession{ID: id, Tail: seedbed.GiB}, seedbed.ErrInvalid},
	} {
		if _, n := l.session(t, tt.ask); n.Note != seedbed.NoteEnd || !errors.Is(n.Err(), tt.want) {
			t.Errorf("%s: %+v; want %v", tt.name, n, tt.want)
		}
	}
	outside, err := l.domain.OpenConsole(t.Context(), id, false) // as virsh does
	must(t, "open outside", err)
	if _, n := l.session(t, seedbed.ConsoleSession{ID: id, Write: true}); !errors.Is(n.Err(), seedbed.ErrInUse) {
		t.Errorf("a console that is open outside: %+v", n)
	}
	if _, n := l.session(t, seedbed.ConsoleSession{ID: id, Write: true, Take: true}); !n.Writing {
		t.Errorf("a console that is taken: %+v", n)
	}
	if _, err := outside.Write([]byte("x")); err == nil {
		t.Error("it is still open outside")
	}
	if _, err := l.OpenChannel(t.Context(), "inventory", nil); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("a call that is not a channel: %v", err)
	}
	must(t, "stop", l.stop())
	if _, err := effects.OpenConsole.Open(t.Context(), l.Client, seedbed.ConsoleSession{ID: id}); !errors.Is(err, seedbed.ErrUnavailable) {
		t.Errorf("without a worker: %v", err)
	}
}

// TestDeafGuest has a guest that does not read what is typed: the session of who types ends, and another one does not.
func TestDeafGuest(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.running(t)
	l.domain.SetDeaf(id, true)
	types, _ := l.session(t, seedbed.ConsoleSession{ID: id, Write: true})
	reads, _ := l.session(t, seedbed.ConsoleSession{ID: id})
	must(t, "type", types.Send(duplex.Message{Data: []byte("x")}))
	m, err := types.Receive()
	must(t, "receive", err)
	var n seedbed.ConsoleNote
	must(t, "note", json.Unmarshal(m.Data, &n))
	if n.Note != seedbed.NoteEnd || !errors.Is(n.Err(), seedbed.ErrUnavailable) || !strings.Contains(n.Reason, "has not read") {
		t.Errorf("who types is told %+v", n)
	}
	for m.Text { // who may type now
		m, err = reads.Receive()
		must(t, "receive", err)
		if m.Text && strings.Contains(string(m.Data), seedbed.NoteEnd) {
			t.Fatalf("who only reads is told %s", m.Data)
		}
		l.domain.Write(id, "shown")
	}
}

// TestOpenedAgain opens a console right after its last session has ended, again and again.
func TestOpenedAgain(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.running(t)
	for range 50 {
		c, n := l.session(t, seedbed.ConsoleSession{ID: id, Write: true})
		if n.Note != seedbed.NoteBegin {
			t.Fatalf("%+v", n)
		}
		c.Close()
	}
}

// TestChannelOfOlderWorker asks a worker for a channel that has none: it answers as releases before channels do.
func TestChannelOfOlderWorker(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "worker.sock")
	ln, err := net.Listen("unix", at)
	must(t, "listen", err)
	older := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMethodNotAllowed)
		fmt.Fprintln(w, `{"error":{"kind":"invalid","message":"Method Not Allowed"}}`)
	})}
	go older.Serve(ln)
	defer older.Close()
	_, err = effects.OpenConsole.Open(t.Context(), fleet.NewClient(at), seedbed.ConsoleSession{ID: seedbed.NewInstanceID()})
	if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), "older than seedbedd") {
		t.Errorf("%v", err)
	}
}
