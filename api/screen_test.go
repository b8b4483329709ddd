package api_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/duplex"
	"seedbed/provision/worker/drivertest"
)

// screenTicket asks for a ticket to the screen of web1.
func (s *server) screenTicket(t *testing.T, header ...string) (ticket wire.Ticket) {
	t.Helper()
	r := s.do(t, "POST", "/api/v1/instances/web1/vnc", "", header...)
	if err := json.Unmarshal([]byte(r.body), &ticket); err != nil || r.status != 201 {
		t.Fatalf("%+v: %v", r, err)
	}
	return ticket
}

// view views the screen of web1.
func (s *server) view(t *testing.T, header ...string) *duplex.Conn {
	t.Helper()
	c := s.channel(t, s.screenTicket(t, header...))
	if _, err := drivertest.View(&duplex.Stream{Conn: c}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestScreenSessions has two callers at one screen, whose sessions end when their rights do, and when the instance stops.
func TestScreenSessions(t *testing.T) {
	t.Parallel()
	s, i := consoleWorld(t, nil)
	first := s.view(t)
	second := s.view(t, "Authorization", "Bearer "+s.newToken(t, "less", seedbed.RoleOperator))
	if r := s.do(t, "PATCH", "/api/v1/tokens/less", `{"role":"viewer"}`); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	if n := nextNote(t, second); n.Note != "end" || n.Kind != "forbidden" {
		t.Errorf("whose role has no action console.open any more: %+v", n)
	}
	if err := s.terminals.DestroyDomain(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	wantNote(t, "the instance stops", nextNote(t, first), seedbed.ConsoleNote{Note: "end", Reason: "the instance has stopped"})
	if n := nextNote(t, s.channel(t, s.screenTicket(t))); n.Kind != "conflict" || !strings.Contains(n.Reason, "is off") {
		t.Errorf("an instance that is off: %+v", n)
	}
	s.audited(t, "the screen", map[string]int{
		"token admin open the screen of instance web1": 2, "token admin end the screen of instance web1": 2, // one was told that it is off
		"token less open the screen of instance web1": 1, "token less end the screen of instance web1": 1,
	})
}

// TestScreenInBrowser opens a screen as a page with an old noVNC does, which asks for a protocol by name.
func TestScreenInBrowser(t *testing.T) {
	t.Parallel()
	s, _ := consoleWorld(t, nil)
	dialer := websocket.Dialer{Subprotocols: []string{"binary"}}
	at := "ws" + strings.TrimPrefix(s.url, "http") + s.screenTicket(t).Path
	ws, resp, err := dialer.DialContext(t.Context(), at, http.Header{"Origin": {s.url}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if got := resp.Header.Get("Sec-WebSocket-Protocol"); got != "binary" {
		t.Errorf("the protocol is %q; want binary", got)
	}
	kind, data, err := ws.ReadMessage()
	if err != nil || kind != websocket.BinaryMessage || string(data) != "RFB 003.008\n" {
		t.Errorf("the first message: %d %q, %v", kind, data, err)
	}
}

// TestScreenshot takes a picture of a screen, and asks for what there is none of.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	s, i := consoleWorld(t, nil)
	r := s.do(t, "GET", "/api/v1/instances/web1/screenshot", "")
	if m, err := png.Decode(bytes.NewReader([]byte(r.body))); err != nil || m.Bounds().Dx() != 640 {
		t.Errorf("%d, %v, %v", r.status, m, err)
	}
	if r.header.Get("Content-Type") != "image/png" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", r.header)
	}
	s.terminals.Forget(i.ID)
	blind := seedbed.DomainSpec{ID: i.ID, Name: "web1", Job: "test"}
	if err := s.terminals.DefineDomain(t.Context(), blind); err != nil {
		t.Fatal(err)
	}
	if err := s.terminals.StartDomain(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if r := s.do(t, "GET", "/api/v1/instances/web1/screenshot", ""); r.status != 409 || !strings.Contains(r.body, "has no screen") {
		t.Errorf("without a screen: %+v", r)
	}
	c := s.channel(t, s.screenTicket(t))
	if n := nextNote(t, c); n.Kind != "conflict" || !strings.Contains(n.Reason, "has no screen") {
		t.Errorf("without a screen: %+v", n)
	}
	if _, err := c.Receive(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	for _, path := range []string{"/screenshot", "/vnc"} {
		method := map[string]string{"/screenshot": "GET", "/vnc": "POST"}[path]
		if r := s.do(t, method, "/api/v1/instances/none"+path, ""); r.status != 404 {
			t.Errorf("%s of no instance: %+v", path, r)
		}
	}
	if err := s.terminals.Stop(); err != nil {
		t.Fatal(err)
	}
	if r := s.do(t, "GET", "/api/v1/instances/web1/screenshot", ""); r.status != 503 {
		t.Errorf("without a worker: %+v", r)
	}
}

// audited waits until the audit log has just these entries about what, by their actor and text.
func (s *server) audited(t *testing.T, what string, want map[string]int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // between two looks
		all, err := s.db.Audit(t.Context(), seedbed.AuditQuery{Scope: seedbed.AllProjects(), Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, e := range all {
			if strings.Contains(e.What, what) {
				got[e.Actor+" "+e.What]++
			}
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("audit (-want +got):\n%s", diff)
		}
	}
}
