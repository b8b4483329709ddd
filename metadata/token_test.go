package metadata

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTokenRules(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.apply(stateOf(nil, guestA(), guestB()))
	a, b := l.client(addrA), l.client(addrB)
	for _, tt := range []struct {
		name    string
		method  string
		path    string
		headers []string
		want    int
		allow   string
	}{
		{"shortest", "PUT", tokenPath, []string{ttlHeader, "1"}, 200, ""},
		{"longest", "PUT", tokenPath, []string{ttlHeader, "21600"}, 200, ""},
		{"header case", "PUT", tokenPath, []string{"x-AWS-ec2-METADATA-token-ttl-SECONDS", "60"}, 200, ""},
		{"no ttl", "PUT", tokenPath, nil, 400, ""},
		{"zero", "PUT", tokenPath, []string{ttlHeader, "0"}, 400, ""},
		{"too long", "PUT", tokenPath, []string{ttlHeader, "21601"}, 400, ""},
		{"huge", "PUT", tokenPath, []string{ttlHeader, strings.Repeat("9", 30)}, 400, ""},
		{"sign", "PUT", tokenPath, []string{ttlHeader, "+60"}, 400, ""},
		{"negative", "PUT", tokenPath, []string{ttlHeader, "-1"}, 400, ""},
		{"text", "PUT", tokenPath, []string{ttlHeader, "1h"}, 400, ""},
		{"two ttls", "PUT", tokenPath, []string{ttlHeader, "60", ttlHeader, "60"}, 400, ""},
		{"forwarded", "PUT", tokenPath, []string{ttlHeader, "60", forwardedHeader, "10.0.0.1"}, 403, ""},
		{"forwarded, other case", "PUT", tokenPath, []string{ttlHeader, "60", "x-forwarded-FOR", ""}, 403, ""},
		{"dated", "PUT", "/2009-04-04/api/token", []string{ttlHeader, "60"}, 403, ""},
		{"version 1.0", "PUT", "/1.0/api/token", []string{ttlHeader, "60"}, 403, ""},
		{"slash", "PUT", tokenPath + "/", []string{ttlHeader, "60"}, 405, "GET, HEAD"},
		{"leaf", "PUT", "/latest/meta-data/instance-id", nil, 405, "GET, HEAD"},
		{"GET", "GET", tokenPath, nil, 405, "PUT"},
		{"POST", "POST", tokenPath, nil, 405, "PUT"},
		{"DELETE", "DELETE", "/latest/meta-data/", nil, 405, "GET, HEAD"},
		{"OPTIONS", "OPTIONS", "/latest/meta-data/", nil, 405, "GET, HEAD"},
		{"unknown method", "BREW", "/latest/meta-data/", nil, 405, "GET, HEAD"},
		{"POST leaf", "POST", "/latest/user-data", nil, 405, "GET, HEAD"},
		{"without token", "GET", "/latest/meta-data/instance-id", nil, 200, ""},
		{"forwarded GET", "GET", "/latest/meta-data/instance-id", []string{forwardedHeader, addrB.String()}, 200, ""},
		{"empty token", "GET", "/latest/meta-data/instance-id", []string{tokenHeader, ""}, 401, ""},
		{"junk token", "GET", "/latest/meta-data/instance-id", []string{tokenHeader, "junk"}, 401, ""},
		{"junk token, HEAD", "HEAD", "/latest/meta-data/instance-id", []string{tokenHeader, "junk"}, 401, ""},
		{"long token", "GET", "/latest/meta-data/instance-id", []string{tokenHeader, strings.Repeat("A", 4000)}, 401, ""},
	} {
		r := l.do(a, tt.method, tt.path, tt.headers...)
		if r.status != tt.want || r.header.Get("Allow") != tt.allow {
			t.Errorf("%s: %d Allow %q, want %d %q", tt.name, r.status, r.header.Get("Allow"), tt.want, tt.allow)
		}
		if tt.method != "HEAD" && r.length != int64(len(r.body)) {
			t.Errorf("%s: Content-Length %d for %d bytes", tt.name, r.length, len(r.body))
		}
	}

	put := l.want(a, 200, "PUT", tokenPath, ttlHeader, "60")
	token := put.body
	if got := put.header.Get(ttlHeader); got != "60" {
		t.Errorf("TTL echoed as %q", got)
	}
	if got := put.header.Get("Content-Type"); got != typeText {
		t.Errorf("Content-Type %q", got)
	}
	l.want(a, 200, "GET", "/latest/meta-data/instance-id", tokenHeader, token)
	l.want(a, 400, "GET", "/latest/meta-data/instance-id", tokenHeader, token, tokenHeader, token)
	l.want(b, 401, "GET", "/latest/meta-data/instance-id", tokenHeader, token)
	for i := range token {
		broken := []byte(token)
		broken[i] ^= 1
		if i%7 == 0 {
			l.want(a, 401, "GET", "/latest/meta-data/instance-id", tokenHeader, string(broken))
		}
	}
	l.pass(59 * time.Second)
	l.want(a, 200, "GET", "/latest/meta-data/instance-id", tokenHeader, token)
	l.pass(time.Second)
	l.want(a, 401, "GET", "/latest/meta-data/instance-id", tokenHeader, token)
}

// TestTokenOnAnotherHost: a token is good wherever the key is, and nowhere else.
func TestTokenOnAnotherHost(t *testing.T) {
	t.Parallel()
	first, second := newLab(t, nil), newLab(t, nil)
	first.apply(stateOf(nil, guestA()))
	second.apply(stateOf(nil, guestA()))
	token := first.want(first.client(addrA), 200, "PUT", tokenPath, ttlHeader, "60").body
	c := second.client(addrA)
	second.want(c, 200, "GET", "/latest/meta-data/mac", tokenHeader, token)
	s := stateOf(nil, guestA())
	s.TokenKey = make([]byte, tokenKeyLen)
	second.apply(s)
	second.want(c, 401, "GET", "/latest/meta-data/mac", tokenHeader, token)
}

// TestNoTokenKey: without a key the PUT gets no status, which clients retry.
func TestNoTokenKey(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	s := stateOf(nil, guestA())
	s.TokenKey = nil
	l.apply(s)
	if got := l.raw(addrA, "PUT /latest/api/token HTTP/1.1\r\nHost: x\r\n"+ttlHeader+": 60\r\nContent-Length: 0\r\n\r\n"); got != "" {
		t.Errorf("answer %q", got)
	}
}

// TestTokenHops: from the PUT on, what is sent on its connection has a time to live of 1.
func TestTokenHops(t *testing.T) {
	t.Parallel()
	l, inner := newInnerLab(t)
	l.apply(stateOf(nil, guestA()))
	c := l.client(addrA)
	l.want(c, 200, "GET", "/latest/meta-data/mac")
	before, err := hops(inner.Load())
	if err != nil || before < 2 {
		t.Fatalf("time to live %d, %v", before, err)
	}
	for _, tt := range []struct{ method, path string }{{"PUT", tokenPath}, {"PUT", tokenPath}, {"GET",
		"/latest/meta-data/mac"}, {"PUT", tokenPath}} {
		l.want(c, 200, tt.method, tt.path, ttlHeader, "60")
		if got, err := hops(inner.Load()); err != nil || got != 1 {
			t.Errorf("after %s: time to live %d, %v, want 1", tt.method, got, err)
		}
	}
	l.want(l.client(addrA), 200, "GET", "/latest/meta-data/mac")
	if got, err := hops(inner.Load()); err != nil || got != before {
		t.Errorf("on another connection: time to live %d, %v, want %d", got, err, before)
	}
}

// TestTokenHopsAhead: a caller that sends the beginning of its next request with the PUT, so that
// the token is not sent at once, gets it no further.
func TestTokenHopsAhead(t *testing.T) {
	t.Parallel()
	l, inner := newInnerLab(t)
	l.apply(stateOf(nil, guestA()))
	c := l.dial(addrA)
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	write := func(s string) {
		t.Helper()
		if _, err := io.WriteString(c, s); err != nil {
			t.Fatal(err)
		}
	}
	write("PUT /latest/api/token HTTP/1.1\r\nHost: x\r\n" + ttlHeader + ": 60\r\nContent-Length: 0\r\n\r\nG")
	eventually(t, "the PUT is answered", func() bool { return l.srv.Stats().Requests[200] == 1 })
	write("ET /latest/meta-data/mac HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(c)
	for range 2 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		if got, err := hops(inner.Load()); err != nil || got != 1 {
			t.Errorf("time to live %d, %v, want 1", got, err)
		}
	}
}

// hops reads how far the packets of c may go.
func hops(c net.Conn) (n int, err error) {
	level, name := hopOption(c)
	err = onSocket(c, func(fd int) error {
		n, err = unix.GetsockoptInt(fd, level, name)
		return err
	})
	return n, err
}

// newInnerLab is newLab with the last connection that it accepted.
func newInnerLab(t *testing.T) (*lab, *atomic.Pointer[net.TCPConn]) {
	t.Helper()
	inner := new(atomic.Pointer[net.TCPConn])
	return newLab(t, func(c *Config) {
		identify := c.Identify
		c.Identify = func(conn net.Conn) (Facts, error) {
			inner.Store(conn.(*net.TCPConn))
			return identify(conn)
		}
	}), inner
}

func FuzzToken(f *testing.F) {
	k := newTokenKey(testKey)
	now := time.Unix(1_800_000_000, 0)
	head := make([]byte, tokenHeadLen) // without the random part, so that each fuzzing process has the same
	head[0] = tokenVersion
	binary.BigEndian.PutUint64(head[1:], uint64(now.Unix()+60))
	sum := k.sum(head, idA)
	good := tokenText.EncodeToString(append(head, sum[:]...))
	if ends, ok := k.check([]byte(good), idA); !ok || !now.Before(ends) {
		f.Fatal("a good token was refused")
	}
	f.Add(good)
	f.Add("")
	f.Add(good + "A")
	f.Add(strings.Repeat("A", len(good)))
	f.Fuzz(func(t *testing.T, token string) {
		if _, ok := k.check([]byte(token), idA); ok && token != good {
			t.Fatalf("%q was accepted", token)
		}
		if _, ok := k.check([]byte(token), idB); ok {
			t.Fatalf("%q was accepted for another instance", token)
		}
		if _, ok := newTokenKey(nil).check([]byte(token), idA); ok {
			t.Fatalf("%q was accepted without a key", token)
		}
	})
}
