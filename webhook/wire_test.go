package webhook

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
)

func TestWire(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	key, now := vectorKey(t), time.Now()
	good := signed(key, "msg_1", now, create)
	expecting := signed(key, "msg_1", now, create)
	expecting["Expect"] = "100-continue"
	block := message("POST", "/hooks/ci", good, create)
	insert := func(line string) string {
		return strings.Replace(block, "Host: seedbed\r\n", "Host: seedbed\r\n"+line, 1)
	}
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"chunked":                {message("POST", "/hooks/ci", chunked(good), chunk(create)), 202},
		"expecting 100":          {message("POST", "/hooks/ci", expecting, create), 202},
		"duplicate id":           {insert("Webhook-ID: msg_1\r\n"), 400},
		"duplicate signature":    {insert("webhook-signature: v1,AAAA\r\n"), 400},
		"duplicate length":       {insert(fmt.Sprintf("content-length: %d\r\n", len(create))), 400},
		"folded header":          {insert("X-Other: a\r\n b\r\n"), 400},
		"folded id":              {strings.Replace(block, "msg_1\r\n", "msg_1\r\n \r\n", 1), 400},
		"bare LF":                {insert("X-Other: a\nwebhook-id: msg_2\r\n"), 400},
		"space before the colon": {insert("X-Other : a\r\n"), 400},
		"negative length":        {strings.Replace(block, "Content-Length: ", "Content-Length: -", 1), 400},
		"unknown coding":         {strings.Replace(block, "Content-Length: ", "Transfer-Encoding: gzip\r\nX: ", 1), 400},
		"headers too large":      {insert("X-Other: " + strings.Repeat("a", httpserve.HeaderBytes) + "\r\n"), 431},
		"unknown method":         {strings.Replace(block, "POST", "BREW", 1), 400},
		"no HTTP":                {"hello\r\n\r\n", 400},
		"trailer is not a header": {message("POST", "/hooks/ci", without(chunked(good), "webhook-id"),
			strings.TrimSuffix(chunk(create), "\r\n")+"webhook-id: msg_1\r\n\r\n"), 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := s.raw(t, test.request); got.status != test.status {
				t.Errorf("answer %d %s, want %d", got.status, got.body, test.status)
			}
		})
	}
}

func without(h map[string]string, name string) map[string]string {
	delete(h, name)
	return h
}

// A connection stays usable after a request that was read to its end, and is closed after one that
// was not: its rest must never become a request.
func TestUnreadBody(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: l})
	key, now := vectorKey(t), time.Now()
	smuggled := message("POST", "/hooks/ci", signed(key, "msg_2", now, create), create)
	padding := strings.Repeat(" ", 20_000)
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range 2 {
		if got := exchange(t, conn, r, message("POST", "/hooks/ci", signed(key, "msg_1", now, create), create)); got.status != 202 || got.close {
			t.Fatalf("answer %+v", got)
		}
	}
	header := map[string]string{"Host": "x", "Content-Length": fmt.Sprint(len(padding) + len(smuggled))}
	if got := exchange(t, conn, r, message("BREW", "/hooks/ci", header, padding+smuggled)); got.status != 400 || !got.close {
		t.Errorf("answer %+v, want 400 and the connection closed", got)
	}
	if rest, _ := io.ReadAll(r); len(rest) != 0 {
		t.Errorf("more came: %q", rest)
	}
	if len(l.requests) != 2 {
		t.Errorf("%d requests were submitted, want 2", len(l.requests))
	}
}

func TestBrokenBodyIsNotSubmitted(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: l})
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	body := create + "   "
	io.WriteString(conn, message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create[:10]))
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, conn)
	conn.Close()
	if len(l.requests) != 0 {
		t.Errorf("a body cut off at 10 of %d bytes was submitted", len(body))
	}
}

// While requests are in hand, new ones get 503; those in hand are answered.
func TestDrain(t *testing.T) {
	t.Parallel()
	entered, finish := make(chan struct{}), make(chan struct{})
	submit := func(context.Context, seedbed.Request, *seedbed.Delivery) (seedbed.Receipt, error) {
		close(entered)
		<-finish
		return seedbed.Receipt{Job: "a", State: seedbed.JobQueued}, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := startOn(t, ln, Config{Hooks: testDirectory(t), Intake: intakeFunc(submit)})
	request := message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create)
	first := make(chan answer, 1)
	go func() { first <- s.raw(t, request) }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	var got answer
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && got.status != 503; {
		// Until the stop is noticed a request would be submitted: an unsigned one is not.
		got = s.raw(t, message("POST", "/hooks/ci", map[string]string{"Host": "x", "Content-Length": "0",
			"Content-Type": "application/json"}, ""))
	}
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a new request got %+v, want 503 with Retry-After", got)
	}
	close(finish)
	if got := <-first; got.status != 202 {
		t.Errorf("the request in hand got %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) { // its port may be another test's by now
		t.Errorf("the listener is still open: %v", err)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: intakeFunc(func(context.Context, seedbed.Request,
		*seedbed.Delivery) (seedbed.Receipt, error) {
		panic("a bug")
	})})
	got := s.raw(t, message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create))
	if got.status != 500 || !got.close || strings.Contains(got.body, "bug") {
		t.Errorf("answer %+v", got)
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := New(Config{Hooks: directory{}}).Serve(context.Background(), ln); err == nil {
		t.Error("no error from a closed listener")
	}
}
