package duplex

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"seedbed"
)

// serve serves connections until t ends, and returns their URL.
func serve(t *testing.T, talk func(*Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		if err := Accept(ctx, talk); err != nil {
			ctx.Error(err.Error(), http.StatusUnprocessableEntity)
		}
	}}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return "ws://" + ln.Addr().String() + "/"
}

// echo sends each message back, until the peer ends.
func echo(c *Conn) {
	for {
		m, err := c.Receive()
		if err != nil {
			return
		}
		if m.Text && string(m.Data) == "end" {
			c.End([]byte("ended"))
			return
		}
		if c.Send(m) != nil {
			return
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	c, err := Dialer{}.Open(t.Context(), serve(t, echo), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	long := bytes.Repeat([]byte("0123456789"), MaxMessage/4) // of several messages
	go c.Write(long)
	var got []byte
	for len(got) < len(long) {
		m, err := c.Receive()
		if err != nil || m.Text || len(m.Data) > MaxMessage {
			t.Fatalf("%v %d, %v", m.Text, len(m.Data), err)
		}
		got = append(got, m.Data...)
	}
	if !bytes.Equal(got, long) {
		t.Error("the bytes came back changed")
	}
	if err := c.Send(Message{Text: true, Data: []byte("end")}); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Receive(); err != nil || !m.Text || string(m.Data) != "ended" {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := c.Receive(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

// TestTooLong: a message that is too long ends the connection of who has sent it.
func TestTooLong(t *testing.T) {
	t.Parallel()
	c, err := Dialer{}.Open(t.Context(), serve(t, echo), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.Send(Message{Data: make([]byte, MaxMessage+1)}) // it may be sent in full before it is refused
	if m, err := c.Receive(); err == nil {
		t.Errorf("%d bytes came back", len(m.Data))
	}
}

// TestClosedByServer: when the server closes a connection, its receive ends, though the peer says nothing.
func TestClosedByServer(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	c, err := Dialer{}.Open(t.Context(), serve(t, func(c *Conn) {
		received := make(chan error)
		go func() {
			_, err := c.Receive()
			received <- err
		}()
		c.End([]byte("ended"))
		ended <- <-received
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begin := time.Now()
	if err := <-ended; err == nil || time.Since(begin) > silence/2 {
		t.Errorf("the receive ended after %s with %v", time.Since(begin), err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	at := serve(t, echo)
	_, err := Dialer{}.Open(t.Context(), at, http.Header{"Origin": {"https://evil.example"}})
	if r, ok := errors.AsType[*Refused](err); !ok || r.Status.StatusCode != 422 || !strings.Contains(string(r.Body), "same origin") {
		t.Errorf("another origin: %v", err)
	}
	resp, err := http.Get("http" + strings.TrimPrefix(at, "ws"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 422 {
		t.Errorf("no WebSocket: %s", resp.Status)
	}
	if err := Asked(&fasthttp.RequestCtx{}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("no request for one: %v", err)
	}
}

// TestStream reads bytes around notes, until a note says that this is the end.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*Conn)
		want error
	}{
		{"the end", func(c *Conn) { c.End(seedbed.EndNote(seedbed.ErrConsoleEnded).JSON()) }, nil},
		{"an error", func(c *Conn) { c.End(seedbed.EndNote(seedbed.ErrConflict).JSON()) }, seedbed.ErrConflict},
		{"no end", (*Conn).Close, seedbed.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Dialer{}.Open(t.Context(), serve(t, func(c *Conn) {
				_ = c.Send(Message{Data: []byte("one ")}) // the test finds out
				_ = c.Send(Message{Text: true, Data: seedbed.ConsoleNote{Note: seedbed.NoteLost, Bytes: 7}.JSON()})
				_ = c.Send(Message{Data: []byte("two")})
				tt.end(c)
			}), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			lost := int64(0)
			s := &Stream{Conn: c, Note: func(n seedbed.ConsoleNote) { lost += n.Bytes }}
			got, err := io.ReadAll(s)
			if string(got) != "one two" || lost != 7 || !errors.Is(err, tt.want) {
				t.Errorf("%q, %d, %v; want %v", got, lost, err, tt.want)
			}
			if _, again := s.Read(make([]byte, 1)); again == nil {
				t.Error("it is read after its end")
			}
		})
	}
}
