package fleet_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"seedbed"
	"seedbed/internal/duplex"
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"
)

// shown makes a domain with a screen that runs.
func (l *lab) shown(t *testing.T) seedbed.InstanceID {
	t.Helper()
	spec := seedbed.DomainSpec{ID: seedbed.NewInstanceID(), Name: "web2", Job: "test", System: &seedbed.System{VNC: true}}
	must(t, "define", l.domain.DefineDomain(t.Context(), spec))
	must(t, "start", l.domain.StartDomain(t.Context(), spec.ID))
	return spec.ID
}

// screen opens a session at a screen.
func (l *lab) screen(t *testing.T, id seedbed.InstanceID) *duplex.Conn {
	t.Helper()
	c, err := effects.OpenScreen.Open(t.Context(), l.Client, effects.DomainRef{ID: id})
	must(t, "open", err)
	t.Cleanup(c.Close)
	return c
}

// lastNote returns the note that ends a session.
func lastNote(t *testing.T, c *duplex.Conn) seedbed.ConsoleNote {
	t.Helper()
	for {
		m, err := c.Receive()
		must(t, "receive", err)
		if !m.Text {
			continue
		}
		var n seedbed.ConsoleNote
		must(t, "note", json.Unmarshal(m.Data, &n))
		if _, err := c.Receive(); err != io.EOF {
			t.Errorf("after the last note: %v", err)
		}
		return n
	}
}

// TestScreenSessions views a screen several times at once, and sees each session end as it should.
func TestScreenSessions(t *testing.T) {
	t.Parallel()
	l := start(t)
	id := l.shown(t)
	var sessions []*duplex.Conn
	for range 16 {
		c := l.screen(t, id)
		if name, err := drivertest.View(&duplex.Stream{Conn: c}); err != nil || name != "web2" {
			t.Fatalf("the screen is %q, %v", name, err)
		}
		sessions = append(sessions, c)
	}
	if n := lastNote(t, l.screen(t, id)); !errors.Is(n.Err(), seedbed.ErrInUse) {
		t.Errorf("one more: %+v", n)
	}
	if _, err := sessions[0].Write([]byte{0xff}); err != nil {
		t.Fatal(err)
	}
	if n := lastNote(t, sessions[0]); !errors.Is(n.Err(), seedbed.ErrConflict) || !strings.Contains(n.Reason, "what is not VNC") {
		t.Errorf("the server ends a session: %+v", n)
	}
	sessions[1].Close()
	again := l.screen(t, id)
	if _, err := drivertest.View(&duplex.Stream{Conn: again}); err != nil {
		t.Errorf("one for one that was ended: %v", err)
	}
	must(t, "destroy", l.domain.DestroyDomain(t.Context(), id))
	for _, c := range append(sessions[2:], again) {
		if n := lastNote(t, c); n.Err() != nil || n.Reason != seedbed.ErrConsoleEnded.Error() {
			t.Errorf("the domain has stopped: %+v", n)
		}
	}
}

// TestScreensThatFail has screens that cannot be opened, each of which says why.
func TestScreensThatFail(t *testing.T) {
	t.Parallel()
	l := start(t)
	for _, tt := range []struct {
		name string
		id   seedbed.InstanceID
		want error
	}{
		{"no such domain", seedbed.NewInstanceID(), seedbed.ErrNotFound},
		{"no ID", "x", seedbed.ErrInvalid},
		{"no screen", l.running(t), seedbed.ErrConflict},
	} {
		if n := lastNote(t, l.screen(t, tt.id)); !errors.Is(n.Err(), tt.want) {
			t.Errorf("%s: %+v; want %v", tt.name, n, tt.want)
		}
		if _, err := effects.Screenshot.Ask(t.Context(), l.Client, effects.DomainRef{ID: tt.id}); !errors.Is(err, tt.want) {
			t.Errorf("%s: screenshot: %v; want %v", tt.name, err, tt.want)
		}
	}
}
