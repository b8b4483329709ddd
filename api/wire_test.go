package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
)

// exchange writes a request byte for byte and reads one answer.
func exchange(t *testing.T, s *server, conn net.Conn, r *bufio.Reader, request string) *http.Response {
	t.Helper()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	_, sent := io.WriteString(conn, request)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no answer: %v (sending: %v)", err, sent)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	res.Body = io.NopCloser(strings.NewReader(string(body)))
	return res
}

func (s *server) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, bufio.NewReader(conn)
}

func TestWire(t *testing.T) {
	t.Parallel()
	s := start(t)
	auth := "Host: x\r\nAuthorization: Bearer " + token + "\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"plain": {"GET /api/v1/jobs HTTP/1.1\r\n" + auth + "\r\n", 200},
		"chunked": {"POST /api/v1/cleanup HTTP/1.1\r\n" + auth +
			"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"dry_run\":true \r\n1\r\n}\r\n0\r\n\r\n", 200},
		"two tokens":        {"GET /api/v1/jobs HTTP/1.1\r\n" + auth + "authorization: Bearer x\r\n\r\n", 400},
		"folded":            {"GET /api/v1/jobs HTTP/1.1\r\n" + auth + "X: a\r\n b\r\n\r\n", 400},
		"both lengths":      {"POST /api/v1/cleanup HTTP/1.1\r\n" + auth + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400},
		"no length":         {"POST /api/v1/cleanup HTTP/1.1\r\n" + auth + "Content-Type: application/json\r\n\r\n", 400},
		"percent in a name": {"GET /api/v1/images/% HTTP/1.1\r\n" + auth + "\r\n", 422},
		"NUL in the path":   {"GET /api/v1/images/a\x00b HTTP/1.1\r\n" + auth + "\r\n", 400},
		"dots":              {"GET /api/v1/images/../jobs HTTP/1.1\r\n" + auth + "\r\n", 404},
		"large header":      {"GET /api/v1/jobs HTTP/1.1\r\n" + auth + "X: " + strings.Repeat("x", 17<<10) + "\r\n\r\n", 431},
		"large and unnamed": {"POST /api/v1/cleanup HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + strings.Repeat("x", 9000), 401},
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := s.dial(t)
			if res := exchange(t, s, conn, r, test.request); res.StatusCode != test.status {
				body, _ := io.ReadAll(res.Body)
				t.Errorf("%d %s, want %d", res.StatusCode, body, test.status)
			}
		})
	}
}

// TestUnreadBody checks that the rest of an unread body never becomes a request.
func TestUnreadBody(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn, r := s.dial(t)
	auth := "Host: x\r\nAuthorization: Bearer " + token + "\r\n"
	for range 2 { // a connection is kept if the body was read
		if res := exchange(t, s, conn, r, "GET /api/v1/jobs HTTP/1.1\r\n"+auth+"\r\n"); res.StatusCode != 200 || res.Close {
			t.Fatalf("%+v", res)
		}
	}
	body := strings.Repeat(" ", 20_000) + "POST /api/v1/cleanup HTTP/1.1\r\n" + auth + "\r\n"
	res := exchange(t, s, conn, r, fmt.Sprintf("DELETE /api/v1/jobs HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", auth, len(body), body))
	if res.StatusCode != 405 || !res.Close {
		t.Errorf("%+v, want 405 and the connection closed", res)
	}
	if rest, _ := io.ReadAll(r); len(rest) != 0 {
		t.Errorf("more came: %q", rest)
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.db.Close()
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/api/v1/jobs", ""}, {"POST", "/api/v1/hooks", `{"name":"h"}`}, {"POST", "/api/v1/images", `{"name":"i","path":"/x"}`},
	} {
		if r := s.do(t, request.method, request.path, request.body); r.status != 503 || r.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s", request.method, request.path, r.status, r.body)
		}
	}
	if r := s.do(t, "GET", "/api/v1/health", ""); r.status != 200 {
		t.Errorf("health: %d", r.status)
	}
}

// TestPanicAndDrain checks that a panic fails only its own request, and that while the server
// stops, a running request is answered and a new one refused.
func TestPanicAndDrain(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stop()
	os.Remove(s.socket)
	entered, finish := make(chan struct{}), make(chan struct{})
	c := s.config()
	c.Clean = func(_ context.Context, dryRun, _ bool) (seedbed.CleanupReport, error) {
		if dryRun {
			panic("a bug")
		}
		close(entered)
		<-finish
		return seedbed.CleanupReport{}, nil
	}
	c.Checks = []func(context.Context) []seedbed.Check{}
	s.serve(t, api.New(c))
	s.routes = routes(t, s.url)
	if r := s.do(t, "POST", "/api/v1/cleanup", `{"dry_run":true}`); r.status != 500 || strings.Contains(r.body, "bug") {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/doctor", ""); r.status != 200 || r.body != "[]" {
		t.Errorf("%+v", r)
	}
	first := make(chan response, 1)
	go func() { first <- s.do(t, "POST", "/api/v1/cleanup", `{}`) }()
	<-entered
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	var got response
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline) && got.status != 503; {
		got = s.do(t, "GET", "/api/v1/jobs", "")
	}
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a new request got %+v, want 503", got)
	}
	close(finish)
	if r := <-first; r.status != 200 {
		t.Errorf("the request in hand got %+v", r)
	}
	<-stopped
}
