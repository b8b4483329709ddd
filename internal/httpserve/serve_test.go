package httpserve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"seedbed/internal/lab/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const bodyLimit = 64

// start serves an app that echoes a body and the header X-One. It returns the address and a
// function that stops the app.
func start(t *testing.T, log io.Writer) (addr string, stop func() error) {
	t.Helper()
	write := func(ctx *fasthttp.RequestCtx, p Problem) { p.Write(ctx) }
	app := New(fiber.Config{
		BodyLimit: bodyLimit,
		ErrorHandler: func(c *fiber.Ctx, err error) error {
			p, ok := errors.AsType[Problem](err)
			if e, router := errors.AsType[*fiber.Error](err); !ok && router {
				p = Problem{Status: e.Code}
			}
			write(c.Context(), p)
			return nil
		},
	}, Guard{
		Log: slog.New(slog.NewTextHandler(log, nil)), Request: "a test request", Single: []string{"x-one"},
		Discard: 1 << 20, Refuse: write, Bug: Problem{Status: fiber.StatusInternalServerError, Detail: "a bug"},
	})
	app.Post("/echo", func(c *fiber.Ctx) error {
		body, err := ReadBody(c.Context(), bodyLimit)
		if err != nil {
			return err
		}
		return c.SendString(FieldsOf(c.Context()).Get("x-one") + string(body))
	})
	app.Post("/busy", func(*fiber.Ctx) error { return Problem{Status: fiber.StatusServiceUnavailable, Kind: "unavailable"} })
	app.Post("/panic", func(*fiber.Ctx) error { panic("secret") })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, app, "tests", new(Gate).Drain, 10*time.Second) }()
	return ln.Addr().String(), func() error { cancel(); return <-done }
}

func TestServe(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	addr, stop := start(t, &log)
	for _, test := range []struct {
		name, path, header, body string
		status                   int
		answer                   string
		close                    bool
	}{
		{"body", "/echo", "X-One: a\r\nContent-Length: 2\r\n", "bc", 200, "abc", false},
		{"chunked", "/echo", "Transfer-Encoding: chunked\r\n", "2\r\nbc\r\n0\r\n\r\n", 200, "bc", false},
		{"badly chunked", "/echo", "Transfer-Encoding: chunked\r\n", "zz\r\n", 400, "chunked", true},
		{"too large", "/echo", "Content-Length: 65\r\n", strings.Repeat("x", 65), 413, "64 bytes", true},
		{"folded", "/echo", "X-One: a\r\n b\r\nContent-Length: 0\r\n", "", 400, "folded", true},
		{"twice", "/echo", "X-One: a\r\nx-one: a\r\nContent-Length: 0\r\n", "", 400, "x-one", true},
		{"both lengths", "/echo", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "bc", 400, "Transfer-Encoding", true},
		{"headers too large", "/echo", "X: " + strings.Repeat("x", HeaderBytes) + "\r\n", "", 431, "", true},
		{"no such path", "/Echo", "Content-Length: 0\r\n", "", 404, "Not Found", false},
		{"unread", "/busy", "Content-Length: 2\r\n", "bc", 503, `"kind":"unavailable"`, true},
		{"panic", "/panic", "Content-Length: 0\r\n", "", 500, "a bug", true},
	} {
		res, body := send(t, addr, "POST "+test.path+" HTTP/1.1\r\nHost: x\r\n"+test.header+"\r\n"+test.body)
		if res.StatusCode != test.status || !strings.Contains(body, test.answer) || res.Close != test.close {
			t.Errorf("%s: %d %q, closed %t; want %d %q, %t", test.name, res.StatusCode, body, res.Close, test.status, test.answer, test.close)
		}
		if kind := res.Header.Get("Content-Type"); res.StatusCode >= 400 && kind != "application/problem+json" {
			t.Errorf("%s: content type %q", test.name, kind)
		}
		if (res.StatusCode == 503) != (res.Header.Get("Retry-After") == RetryAfter) {
			t.Errorf("%s: Retry-After %q", test.name, res.Header.Get("Retry-After"))
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "panic in a test request") || strings.Count(got, "\n") != 1 {
		t.Errorf("log: %s", got)
	}
}

// send writes a request byte for byte and reads the answer.
func send(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	_, sent := fmt.Fprint(conn, request)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v (sending: %v)", err, sent)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestServeEndsWithItsListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	app := New(fiber.Config{}, Guard{})
	if err := Serve(context.Background(), ln, app, "tests", new(Gate).Drain, time.Second); err == nil ||
		!strings.HasPrefix(err.Error(), "serve tests on 127.") {
		t.Errorf("error %v from a closed listener", err)
	}
}

// TestBudget checks that the bytes that senders have sent count, and that no more are accepted than
// the budget has room for.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(3000, 3000)
	read := func(body string, limit int) (int, func(), error) {
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetBodyStream(strings.NewReader(body), len(body))
		got, drop, err := b.Read(ctx, netip.Prefix{}, limit)
		return len(got), drop, err
	}
	n, drop, err := read(strings.Repeat("x", 1500), 2000)
	if n != 1500 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if n, _, err := read(strings.Repeat("x", 1500), 2000); n != 0 || !errors.Is(err, ErrNoRoom) {
		t.Errorf("without room: %d bytes, %v", n, err)
	}
	if n, again, err := read("x", 2000); n != 1 || err != nil {
		t.Errorf("a small one beside it: %d bytes, %v", n, err)
	} else {
		again()
	}
	if _, _, err := read(strings.Repeat("x", 900), 500); err == nil || errors.Is(err, ErrNoRoom) {
		t.Errorf("too large: %v", err)
	}
	drop()
	drop()
	if got := b.left; got != 3000 {
		t.Errorf("%d bytes are left at the end, want 3000", got)
	}
	if n, _, err := read(strings.Repeat("x", 1500), 2000); n != 1500 || err != nil {
		t.Errorf("with room again: %d bytes, %v", n, err)
	}
}

// TestBudgetShares checks that one peer gets no more than its share, that others and those without a
// share do not notice, and that each body gives back what it held.
func TestBudgetShares(t *testing.T) {
	t.Parallel()
	b := NewBudget(8<<10, 1<<10)
	one, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	read := func(peer netip.Prefix, size int) (func(), error) {
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetBodyStream(strings.NewReader(strings.Repeat("x", size)), size)
		_, drop, err := b.Read(ctx, peer, 4<<10)
		return drop, err
	}
	var drops []func()
	for _, test := range []struct {
		peer netip.Prefix
		size int
		want error
	}{
		{one, 400, nil}, {one, 400, nil}, {one, 1, ErrShare}, {other, 1500, ErrShare}, {other, 400, nil},
		{netip.Prefix{}, 1500, nil}, {netip.Prefix{}, 1500, nil}, {netip.Prefix{}, 4000, ErrNoRoom}, {other, 400, nil},
	} {
		drop, err := read(test.peer, test.size)
		if !errors.Is(err, test.want) {
			t.Errorf("%d bytes of %s: %v, want %v", test.size, test.peer, err, test.want)
		}
		drops = append(drops, drop)
	}
	for _, drop := range drops {
		drop()
	}
	if b.left != 8<<10 || len(b.peers) != 0 {
		t.Errorf("%d bytes are left at the end, and %v is held", b.left, b.peers)
	}
}
