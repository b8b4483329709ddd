package metadata

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// TestJunk sends what is no HTTP, or HTTP that two readers would read in two ways.
func TestJunk(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	const get = "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\n"
	for _, tt := range []struct {
		name, send string
		want       string // the status line's start; empty means no 200 at all
	}{
		{"good", get + "Connection: close\r\n\r\n", "HTTP/1.1 200"},
		{"absolute form", "GET http://169.254.169.254/latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200"},
		{"HTTP/1.0", "GET /latest/meta-data/hostname HTTP/1.0\r\n\r\n", "HTTP/1.1 200"},
		{"zone in the host", "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: [fe80::a9fe:a9fe%ens3]\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200"},
		{"host of escapes", "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: %%%\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"},
		{"length and coding", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"},
		{"coding and length", "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"},
		{"two lengths", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "HTTP/1.1 400"},
		{"two codings", "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"HTTP/1.1 400"},
		{"odd coding", "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"},
		{"two tokens", get + tokenHeader + ": a\r\n" + strings.ToUpper(tokenHeader) + ": b\r\n\r\n", "HTTP/1.1 400"},
		{"two hosts", get + "Host: y\r\n\r\n", "HTTP/1.1 400"},
		{"folded", get + "X-A: b\r\n c\r\n\r\n", "HTTP/1.1 400"},
		{"folded token", get + tokenHeader + ":\r\n abc\r\n\r\n", "HTTP/1.1 400"},
		{"blank before colon", get + "Content-Length : 0\r\n\r\n", "HTTP/1.1 400"},
		{"negative length", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400"},
		{"header too large", get + "X-A: " + strings.Repeat("a", 9000) + "\r\n\r\n", "HTTP/1.1 431"},
		{"path too large", "GET /" + strings.Repeat("a", 9000) + " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 431"},
		{"body too large", "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("a", 20000), "HTTP/1.1 413"},
		{"chunks too large", "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n" + strings.Repeat("a",
			20000) + "\r\n0\r\n\r\n", "HTTP/1.1 413"},
		{"bare line feeds", "GET / HTTP/1.1\nHost: x\n\n", ""},
		{"no version", "GET /\r\n\r\n", ""},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 64) + "\r\n\r\n", ""},
		{"nothing", "", ""},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", ""},
	} {
		got := l.raw(addrA, tt.send)
		if tt.want == "" && strings.Contains(got, " 200 ") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %.80q, want %q", tt.name, got, tt.want)
		}
		if strings.Count(got, "HTTP/1.1 ") > 1 {
			t.Errorf("%s: answered more than once: %q", tt.name, got)
		}
	}
	l.want(l.client(addrA), 200, "GET", "/latest/meta-data/hostname")
}

// TestPipelined: requests in one segment are each answered, in order.
func TestPipelined(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA()))
	put := "PUT /latest/api/token HTTP/1.1\r\nHost: x\r\n" + ttlHeader + ": 60\r\nContent-Length: 0\r\n\r\n"
	get := "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\n\r\n"
	got := l.raw(addrA, put+get+get)
	if n := strings.Count(got, "HTTP/1.1 200"); n != 3 || !strings.HasSuffix(got, "web-1") {
		t.Errorf("%d answers: %q", n, got)
	}
}

// TestSlow: a caller that trickles its request does not keep its place.
func TestSlow(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Read, c.Limits.Idle = 100*time.Millisecond, 100*time.Millisecond })
	l.apply(stateOf(nil, guestA()))
	for name, send := range map[string]string{
		"silent": "", "half a header": "GET / HTTP/1.1\r\nHo",
		"half a body": "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
		"idle":        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := l.dial(addrA)
		io.WriteString(c, send)
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Errorf("%s: still open", name)
			}
		}
		c.Close()
	}
	eventually(t, "all places are free", func() bool { return l.srv.Stats().Conns == 0 })
}

// TestPanic: one request that makes the program panic gets 500, the next is answered.
func TestPanic(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	inner := l.srv.cfg.OnEvent
	l.srv.cfg.OnEvent = func(e seedbed.GuestEvent) {
		if e.Path == "/boom" {
			panic("boom")
		}
		inner(e)
	}
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	l.want(c, 500, "GET", "/boom")
	l.want(c, 200, "GET", "/latest/meta-data/hostname")
}

// TestServeEnds with an idle, a busy and a half-sent connection.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *Config) { c.Limits.Shutdown = 200 * time.Millisecond })
	l.apply(stateOf(nil, guestA()))
	for _, send := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHo"} {
		c := l.dial(addrA)
		defer c.Close()
		io.WriteString(c, send)
	}
	eventually(t, "three are open", func() bool { return l.srv.Stats().Conns == 3 })
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	if n := l.srv.Stats().Conns; n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
