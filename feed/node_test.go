package feed

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/mtls"
)

// TestOtherNodes: a guest plane gets what is its own node's, whatever it asks for.
func TestOtherNodes(t *testing.T) {
	t.Parallel()
	socket, m := socketIn(t.TempDir()), newMemory()
	m.publish(guest(1), []byte("mine"))
	m.publish(guest(2), []byte("theirs"))
	mine, theirs := m.live[instance(1)].UserData.SHA256, m.live[instance(2)].UserData.SHA256
	m.theirs, m.foreign = map[string]bool{theirs: true}, 1
	runNodeServer(t, m, socket)
	up := newUpstream("", remotesAs(identity(t, mtls.Metadata, "node1"), socket))
	t.Cleanup(up.close)
	stranger := newUpstream("", remotesAs(identity(t, mtls.Metadata, "stranger"), socket))
	t.Cleanup(stranger.close)
	spool := strings.Repeat("a", 32)
	for _, tt := range []struct {
		name, method, path, body string
		up                       *upstream
		want                     int
		says                     string
	}{
		{"its feed", "GET", "/v1/feed?node=node1", "", up, 200, ""},
		{"another's feed", "GET", "/v1/feed?node=node2", "", up, 403, "the certificate is for node node1, but the request is for \\\"node2\\\""},
		{"its document", "GET", "/v1/blobs/" + mine, "", up, 200, "mine"},
		{"another's document", "GET", "/v1/blobs/" + theirs, "", up, 404, ""},
		{"its revision", "POST", "/v1/applied", `{"node":"node1","revision":1}`, up, 204, ""},
		{"another's revision", "POST", "/v1/applied", `{"node":"node2","revision":1}`, up, 403, "node node1"},
		{"another's events", "POST", "/v1/events", `{"node":"node2","spool":"` + spool + `","events":[]}`, up, 403, "node node1"},
		{"a node that is none", "GET", "/v1/feed?node=stranger", "", stranger, 403, "seedbed node add stranger"},
		{"its document, too", "GET", "/v1/blobs/" + mine, "", stranger, 403, "seedbed node add stranger"},
		{"no such path", "GET", "/v2", "", stranger, 403, ""},
	} {
		req, err := http.NewRequest(tt.method, "http://feed"+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tt.up.targets[0].http.Do(req)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.want || !strings.Contains(string(body), tt.says) {
			t.Errorf("%s: %d %s, want %d and %q", tt.name, resp.StatusCode, body, tt.want, tt.says)
		}
	}
	if a := m.acks(); len(a) != 1 {
		t.Errorf("applied %v", a)
	}
}

// TestThisNode: the guest plane of the control host itself gets no more than others do.
func TestThisNode(t *testing.T) {
	t.Parallel()
	socket, m := filepath.Join(t.TempDir(), "s"), newMemory()
	m.publish(guest(1), []byte("mine"))
	m.publish(guest(2), []byte("theirs"))
	mine, theirs := m.live[instance(1)].UserData.SHA256, m.live[instance(2)].UserData.SHA256
	m.theirs, m.foreign = map[string]bool{theirs: true}, 1
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) error { return NewServer(m, quiet).ServeNode(ctx, ln, "node1", m) })
	up := newUpstream(socket, nil)
	t.Cleanup(up.close)
	if _, err := up.page(t.Context(), "node2", position{"", 0, 0}, 0); !errors.Is(err, seedbed.ErrForbidden) ||
		!strings.Contains(err.Error(), "this host is node node1") {
		t.Errorf("another's feed: %v", err)
	}
	if page, err := up.page(t.Context(), "node1", position{"", 0, 0}, 0); err != nil || len(page.changes) != 2 {
		t.Errorf("its feed: %d guests, %v", len(page.changes), err)
	}
	if b, err := up.blob(t.Context(), mine); string(b) != "mine" || err != nil {
		t.Errorf("its document: %q, %v", b, err)
	}
	if b, err := up.blob(t.Context(), theirs); !errors.Is(err, seedbed.ErrNotFound) {
		t.Errorf("another's document: %q, %v", b, err)
	}
	if err := up.applied(t.Context(), "node2", 1); !errors.Is(err, seedbed.ErrForbidden) {
		t.Errorf("another's revision: %v", err)
	}
	var events []json.RawMessage
	for n := range 2 {
		e := event(seedbed.GuestReport, n+1)
		e.Seq = int64(n + 1)
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, b)
	}
	if err := up.events(t.Context(), "node1", strings.Repeat("a", 32), events); err != nil {
		t.Fatal(err)
	}
	if got := m.got(); len(got) != 1 || got[0].Instance != instance(1) {
		t.Errorf("got %+v", got)
	}
}

// TestForeignEvents: what a guest plane says of another node's guests is dropped, and costs no
// other event.
func TestForeignEvents(t *testing.T) {
	t.Parallel()
	socket, m := socketIn(t.TempDir()), newMemory()
	m.foreign = 5
	runNodeServer(t, m, socket)
	up := newUpstream("", remotesAs(identity(t, mtls.Metadata, "node1"), socket))
	t.Cleanup(up.close)
	var events []json.RawMessage
	for n := range 10 {
		e := event(seedbed.GuestReport, n+1)
		e.Seq = int64(n + 1)
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, b)
	}
	if err := up.events(t.Context(), "node1", strings.Repeat("a", 32), events); err != nil {
		t.Fatal(err)
	}
	if got := m.got(); len(got) != 5 || got[4].Instance != instance(5) {
		t.Errorf("got %+v", got)
	}
}

// TestRolesOfTheFeed: who is no guest plane of this installation is not served, and who is no
// control host not believed.
func TestRolesOfTheFeed(t *testing.T) {
	t.Parallel()
	socket, m := socketIn(t.TempDir()), newMemory()
	runNodeServer(t, m, socket)
	elsewhere := filepath.Join(t.TempDir(), "ca")
	if _, err := mtls.NewAuthority(elsewhere, time.Hour); err != nil {
		t.Fatal(err)
	}
	worker := socketIn(t.TempDir())
	ln, err := identity(t, mtls.Worker, "node1").Listen(t.Context(), place(worker), mtls.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := ln.Accept(); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	for name, tt := range map[string]struct {
		remotes []Remote
		want    string
	}{
		"a control host as caller": {remotesAs(identity(t, mtls.Control, "node1"), socket), "bad certificate"},
		"a worker as caller":       {remotesAs(identity(t, mtls.Worker, "node1"), socket), "bad certificate"},
		"a worker as server":       {remotesAs(identity(t, mtls.Metadata, "node1"), worker), "expected seedbed:control"},
		"another authority":        {remotesAs(identityBy(t, elsewhere, mtls.Metadata, "node1"), socket), "was not signed by the authority"},
	} {
		up := newUpstream("", tt.remotes)
		_, err := up.page(t.Context(), "node1", position{"", 0, 0}, 0)
		if !errors.Is(err, seedbed.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(),
			tt.remotes[0].Addr) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		up.close()
	}
}

// TestOnASocketOfAnother: a listener whose connections do not tell whose they are serves no node.
func TestOnASocketOfAnother(t *testing.T) {
	t.Parallel()
	socket, m := socketIn(t.TempDir()), newMemory()
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	background(t, func(ctx context.Context) error { return NewServer(m, quiet).ServeNodes(ctx, ln, m) })
	up := newUpstream(socket, nil)
	t.Cleanup(up.close)
	if _, err := up.page(t.Context(), "node1", position{"", 0, 0}, 0); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("got %v", err)
	}
}

// TestFailover: with one control host away the next is followed, for the feed and for events,
// and guests are served on in between.
func TestFailover(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	m.publish(guest(1), []byte("one"))
	plane := identity(t, mtls.Metadata, "node1")
	stop := runNodeServer(t, m, one)
	r := &recorder{}
	c := NewClient(ClientConfig{Remotes: remotesAs(plane, one, two), Node: "node1", Dir: dir, Applier: r, Log: quiet, Wait: 5 * time.Second})
	background(t, c.Run)
	s, err := OpenSpool(SpoolConfig{Remotes: remotesAs(plane, one, two), Node: "node1", Dir: dir, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	background(t, s.Run)
	eventually(t, "the first is followed", m.ackedAt(1))
	s.Add(event(seedbed.GuestReport, 1))
	eventually(t, "the first has the event", func() bool { return len(m.got()) == 1 })

	stop()
	eventually(t, "the outage is noticed", func() bool { return !c.Status().Connected })
	if st := r.last(); userData(t, st, instance(1)) != "one" || !st.InSync {
		t.Errorf("state %+v", st)
	}
	s.Add(event(seedbed.GuestReport, 2))
	m.publish(guest(2), nil)
	stop = runNodeServer(t, m, two)
	eventually(t, "the second is followed", m.ackedAt(2))
	eventually(t, "the second has the event", func() bool { return len(m.got()) == 2 })

	runNodeServer(t, m, one)
	stop()
	m.publish(guest(3), nil)
	eventually(t, "the first is followed again", m.ackedAt(3))
	for _, st := range r.states {
		if !st.InSync {
			t.Error("not in sync although it had been")
		}
	}
}

// TestEachOutageIsToldOnce: of several hosts that are away, each is told of once, however often
// they are tried.
func TestEachOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	log := &lines{}
	c := NewClient(ClientConfig{Remotes: remotesAs(identity(t, mtls.Metadata, "node1"), one, two), Node: "node1", Dir: dir,
		Applier: &recorder{},
		Log:     slog.New(slog.NewTextHandler(log, nil)), Wait: 5 * time.Second})
	var problems []string
	background(t, c.Run)
	eventually(t, "both were tried again and again", func() bool {
		if p := c.Status().Problem; p != "" && (len(problems) == 0 || problems[len(problems)-1] != p) {
			problems = append(problems, p)
		}
		return len(problems) >= 5
	})
	if n := log.count("feed is interrupted"); n != 2 {
		t.Errorf("told %d times", n)
	}
	for _, p := range problems[:2] {
		if strings.Contains(p, "since=") {
			t.Errorf("%s", p)
		}
	}
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestRefusedIsNotLost: events of a node that is not let in wait until it is.
func TestRefusedIsNotLost(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), newMemory()
	socket := socketIn(dir)
	stop := runNodeServer(t, m, socket)
	s, err := OpenSpool(SpoolConfig{Remotes: remotesAs(identity(t, mtls.Metadata, "stranger"), socket), Node: "stranger",
		Dir: dir, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	running := background(t, s.Run)
	if err := s.AddDurable(t.Context(), event(seedbed.GuestReport, 1)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it was refused", func() bool { return m.asked() > 1 })
	if st := s.Stats(); st.Lost != 0 || st.Sent != 0 || st.Waiting == 0 {
		t.Errorf("%+v", st)
	}
	running()
	stop()
}
