package httpserve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// streaming serves an app that answers the number of bytes that it read of a body, of which
// something must come in that time.
func streaming(life context.Context, t *testing.T, idle time.Duration) string {
	t.Helper()
	write := func(ctx *fasthttp.RequestCtx, p Problem) { p.Write(ctx) }
	app := New(fiber.Config{BodyLimit: bodyLimit, ErrorHandler: func(c *fiber.Ctx, err error) error {
		p, ok := errors.AsType[Problem](err)
		if !ok {
			p = Problem{Status: fiber.StatusServiceUnavailable, Detail: err.Error()}
		}
		write(c.Context(), p)
		return nil
	}}, Guard{Log: slog.New(slog.DiscardHandler), Request: "a test request", Discard: 1 << 20,
		Refuse: write, Bug: Problem{Status: fiber.StatusInternalServerError}})
	app.Post("/", func(c *fiber.Ctx) error {
		s, err := NewStream(life, c.Context(), 1<<20, idle)
		if s != nil {
			defer s.Close()
		}
		n := int64(0)
		if err == nil {
			n, err = io.Copy(io.Discard, s)
		}
		if err != nil {
			if s != nil {
				if s.Err() == nil {
					t.Error("the stream does not know what was wrong")
				}
				s.Linger(min(5*idle, time.Minute))
			}
			return err
		}
		return c.SendString(strconv.FormatInt(n, 10))
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, app, "tests", new(Gate).Drain, 10*time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestStream(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancelCause(context.Background())
	end(errors.New("the server stops"))
	much := strings.Repeat("x", 300_000)
	for _, c := range []struct {
		name, header, body string
		life               context.Context
		half               bool // the caller sends nothing more
		status             int
		answer             string
	}{
		{"whole", "Content-Length: 300000\r\n", much, t.Context(), false, 200, "300000"},
		{"chunked", "Transfer-Encoding: chunked\r\n", "493e0\r\n" + much + "\r\n0\r\n\r\n", t.Context(), false, 200, "300000"},
		{"said to be too large", "Content-Length: 2000000\r\n", much, t.Context(), true, 413, "larger than 1048576"},
		{"too large", "Transfer-Encoding: chunked\r\n", strings.Repeat("493e0\r\n"+much+"\r\n", 4) + "0\r\n\r\n", t.Context(), false,
			413, "larger than 1048576"},
		{"none", "Content-Length: 0\r\n", "", t.Context(), false, 400, "no body"},
		{"ends early", "Content-Length: 400000\r\n", much, t.Context(), true, 400, "ended early"},
		{"badly chunked", "Transfer-Encoding: chunked\r\n", "493e0\r\n" + much + "\r\nzz\r\n", t.Context(), true, 400, "ended early"},
		{"stands still", "Content-Length: 400000\r\n", much, t.Context(), false, 408, "nothing of the body came"},
		{"server stops", "Content-Length: 300000\r\n", much, over, false, 503, "the server stops"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			idle := time.Minute
			if c.name == "stands still" {
				idle = 200 * time.Millisecond
			}
			conn, err := net.Dial("tcp", streaming(c.life, t, idle))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n"+c.body); err != nil {
				t.Fatal(err)
			}
			if c.half {
				conn.(*net.TCPConn).CloseWrite()
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != c.status || !strings.Contains(string(body), c.answer) || res.Close != (c.status != 200 && c.name != "none") {
				t.Errorf("%d %q, closed %t; want %d %q", res.StatusCode, body, res.Close, c.status, c.answer)
			}
		})
	}
}
