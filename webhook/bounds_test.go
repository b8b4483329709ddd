package webhook

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/lab"
)

// held is an intake that says when it was entered, and then waits to be let on.
type held struct{ entered, finish chan struct{} }

func newHeld() held { return held{make(chan struct{}, 16), make(chan struct{}, 16)} }

func (h held) Submit(ctx context.Context, _ seedbed.Request, _ *seedbed.Delivery) (seedbed.Receipt, error) {
	h.entered <- struct{}{}
	select {
	case <-h.finish:
	case <-ctx.Done():
		return seedbed.Receipt{}, ctx.Err()
	}
	return seedbed.Receipt{Job: "11111111-2222-4333-8444-555555555555", State: seedbed.JobQueued}, nil
}

func (held) Plan(context.Context, seedbed.Request) (seedbed.Plan, error) { return seedbed.Plan{}, nil }

// await waits until one more has entered.
func (h held) await(t *testing.T) {
	t.Helper()
	select {
	case <-h.entered:
	case <-time.After(time.Minute):
		t.Fatal("nothing is submitted")
	}
}

// hookOf is a directory with the hook ci, changed.
func hookOf(t testing.TB, change func(*seedbed.Hook)) directory {
	d := testDirectory(t)
	h := d.hooks["ci"]
	change(&h)
	d.hooks["ci"] = h
	return d
}

// A hook takes smaller bodies than the listener where it says so, and never larger ones.
func TestMaxBodyOfAHook(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hook   seedbed.Bytes
		size   int
		status int
	}{{0, 2048, 202}, {0, 2049, 413}, {1024, 1024, 202}, {1024, 1025, 413}, {4096, 2049, 413}} {
		s := start(t, Config{Hooks: hookOf(t, func(h *seedbed.Hook) { h.MaxBody = test.hook }), Intake: &ledger{}, MaxBody: 2 * seedbed.KiB})
		body := create + strings.Repeat(" ", test.size-len(create))
		h := signed(vectorKey(t), "msg_1", time.Now(), body)
		if got := deliver(t, s, "ci", h, body); got.status != test.status {
			t.Errorf("%d bytes for a hook of %s: %d %s, want %d", test.size, test.hook, got.status, got.body, test.status)
		}
		if got := s.raw(t, message("POST", "/hooks/ci", chunked(h), chunk(body))); got.status != test.status {
			t.Errorf("%d bytes in chunks for a hook of %s: %d %s, want %d", test.size, test.hook, got.status, got.body, test.status)
		}
	}
}

// A hook works on no more deliveries at a time than it says, and others are not held up.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	intake := newHeld()
	s := start(t, Config{Hooks: hookOf(t, func(h *seedbed.Hook) { h.Concurrency = 1 }), Intake: intake})
	request := func(hook, id string) string {
		return message("POST", "/hooks/"+hook, signed(vectorKey(t), id, time.Now(), create), create)
	}
	answers := make(chan answer, 2)
	go func() { answers <- s.raw(t, request("ci", "msg_1")) }()
	intake.await(t)
	if got := s.raw(t, request("ci", "msg_2")); got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Errorf("a second one: %+v, want 429 with Retry-After", got)
	}
	go func() { answers <- s.raw(t, request("open", "msg_2")) }()
	intake.await(t)
	intake.finish <- struct{}{}
	intake.finish <- struct{}{}
	for range 2 {
		if got := <-answers; got.status != 202 {
			t.Errorf("%+v, want 202", got)
		}
	}
	intake.finish <- struct{}{}
	if got := s.raw(t, request("ci", "msg_2")); got.status != 202 {
		t.Errorf("after the first has ended: %+v, want 202", got)
	}
}

// What all bodies have in memory together is bounded, and each gives back what it held.
func TestBodiesTogether(t *testing.T) {
	t.Parallel()
	intake := newHeld()
	s := start(t, Config{Hooks: testDirectory(t), Intake: intake}, func(s *Server) { s.bounds.bodies = 3 << 10 })
	large := create + strings.Repeat(" ", 1500) // in a buffer of 2 KiB
	request := func(id, body string) string {
		return message("POST", "/hooks/ci", signed(vectorKey(t), id, time.Now(), body), body)
	}
	answers := make(chan answer, 3)
	for range 3 {
		go func() { answers <- s.raw(t, request("msg_1", large)) }()
		intake.await(t)
		if got := s.raw(t, request("msg_2", large)); got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("a second large one: %+v, want 503 with Retry-After", got)
		}
		intake.finish <- struct{}{}
		if got := <-answers; got.status != 202 {
			t.Errorf("%+v, want 202", got)
		}
	}
}

// A peer without a key that lets its bodies stand still has its share of the memory, and the others
// have the rest.
func TestBodiesOfOnePeer(t *testing.T) {
	t.Parallel()
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}, TrustedProxies: local},
		func(s *Server) { s.bounds.bodies, s.bounds.read = 32<<10, lab.Patience })
	from := func(peer, hook, body string) string {
		header := signed(vectorKey(t), "msg_1", time.Now(), create)
		header["X-Forwarded-For"] = peer
		return message("POST", "/hooks/"+hook, chunked(header), body)
	}
	// hold has a connection hold 4 KiB, an eighth of all. It does not when what else is being read
	// takes a part of them meanwhile, so that its body is refused.
	hold := func() {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(conn, from("192.0.2.1", "ci", "1000\r\n"+strings.Repeat(" ", 4000)))
	}
	for range 7 {
		hold()
	}
	var got answer
	for end := time.Now().Add(lab.Patience); got.status != 429 && time.Now().Before(end); {
		hold()
		got = s.raw(t, from("192.0.2.1", "ci", chunk(create)))
	}
	if got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Errorf("more from that peer: %+v, want 429 with Retry-After", got)
	}
	if got := s.raw(t, from("192.0.2.2", "ci", chunk(create))); got.status != 202 {
		t.Errorf("from another peer: %+v, want 202", got)
	}
}

// No more connections are served than there is room for, and when half of it is taken nobody keeps
// one for a next request.
func TestConnections(t *testing.T) {
	t.Parallel()
	intake := newHeld()
	s := start(t, Config{Hooks: testDirectory(t), Intake: intake}, func(s *Server) { s.bounds.connections = 2 })
	dial := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(time.Minute))
		return conn, bufio.NewReader(conn)
	}
	ask := func(conn net.Conn, n int) {
		fmt.Fprint(conn, message("POST", "/hooks/ci", signed(vectorKey(t), fmt.Sprint("msg_", n), time.Now(), create), create))
	}
	read := func(r *bufio.Reader, closed bool) {
		t.Helper()
		if got, err := receive(r); err != nil || got.status != 202 || got.close != closed {
			t.Errorf("%+v (%v), want 202 and the connection closed: %t", got, err, closed)
		}
	}
	first, firstReader := dial()
	ask(first, 1)
	intake.await(t)
	intake.finish <- struct{}{}
	read(firstReader, false) // it is alone
	second, secondReader := dial()
	ask(second, 2)
	intake.await(t)
	ask(first, 3)
	intake.await(t)
	third, thirdReader := dial()
	ask(third, 4)
	select {
	case <-intake.entered:
		t.Error("a third connection is served")
	case <-time.After(200 * time.Millisecond):
	}
	intake.finish <- struct{}{}
	intake.finish <- struct{}{}
	intake.finish <- struct{}{}
	read(firstReader, true)
	read(secondReader, true)
	if got, err := receive(thirdReader); err != nil || got.status != 202 {
		t.Errorf("%+v (%v), want the third served at last", got, err)
	}
}

// A hook may take older deliveries than most do, or younger ones alone.
func TestTolerance(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	for _, test := range []struct {
		hook   string
		off    time.Duration
		status int
	}{
		{"slack", -50 * time.Minute, 202}, {"slack", 50 * time.Minute, 202}, {"slack", -70 * time.Minute, 401}, {"slack", 70 * time.Minute, 401},
		{"ci", -4 * time.Minute, 202}, {"ci", -6 * time.Minute, 401}, {"ci", 6 * time.Minute, 401},
		{"strict", -4 * time.Minute, 401}, {"strict", 0, 202},
	} {
		if got := deliver(t, s, test.hook, signed(vectorKey(t), "msg_1", time.Now().Add(test.off), create), create); got.status != test.status {
			t.Errorf("%s, %s off: %d, want %d", test.hook, test.off, got.status, test.status)
		}
	}
}
