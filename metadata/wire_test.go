package metadata

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// FuzzWire sends any bytes to the server: each answer is well-formed and one that it gives, and the
// next guest is answered.
func FuzzWire(f *testing.F) {
	get := "GET /latest/meta-data/hostname HTTP/1.1\r\nHost: x\r\n"
	for _, s := range []string{
		get + "\r\n", get + "Connection: close\r\n\r\n" + get + "\r\n", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT /latest/api/token HTTP/1.1\r\nHost: x\r\n" + ttlHeader + ": 60\r\nContent-Length: 0\r\n\r\n",
		"POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"POST /seedbed/report/report-token-of-a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		get + "X-A: b\r\n c\r\n\r\n", "GET http://a/latest/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET //latest/meta-data/ HTTP/1.0\r\n\r\n",
		get + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", "\x16\x03\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, send []byte) {
		l := newLab(t, func(c *Config) { c.Limits.Read, c.Limits.Idle = time.Second, time.Second })
		l.apply(stateOf(nil, guestA(), guestB()))
		answers := bufio.NewReader(strings.NewReader(l.raw(addrA, string(send))))
		for {
			if _, err := answers.Peek(1); err == io.EOF {
				break
			}
			method := "GET"
			if bytes.Contains(send, []byte("HEAD")) {
				method = "HEAD" // its answers have no body; whose is whose cannot be told
			}
			r, err := http.ReadResponse(answers, &http.Request{Method: method})
			if err != nil {
				if method == "HEAD" {
					break
				}
				t.Fatalf("%q: malformed answer: %v", send, err)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Fatalf("%q: cut answer: %v", send, err)
			}
			switch r.StatusCode {
			case 100, 200, 400, 401, 403, 404, 405, 409, 413, 417, 431:
			default:
				t.Fatalf("%q: status %d", send, r.StatusCode)
			}
			if got := r.Header.Get("Server"); r.StatusCode != 100 && got != "EC2ws" {
				t.Fatalf("%q: Server %q", send, got)
			}
		}
		l.want(l.client(addrB), 200, "GET", "/latest/meta-data/hostname")
	})
}

// FuzzFraming: the one pass over the header lines finds what fasthttp finds.
func FuzzFraming(f *testing.F) {
	f.Add("X-aws-ec2-metadata-token: abc", "x-forwarded-for: 1")
	f.Add("X-Aws-Ec2-Metadata-Token-Ttl-Seconds:60 ", "Host: a")
	f.Add("Content-Length: 0", "Transfer-Encoding : chunked")
	f.Fuzz(func(t *testing.T, first, second string) {
		h := &fasthttp.RequestHeader{}
		if h.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n"+first+"\r\n"+second+"\r\n\r\n"))) != nil {
			return
		}
		got, ok := readFraming(h)
		if !ok {
			return
		}
		tokens := h.PeekAll(tokenHeader)
		if got.hasToken != (len(tokens) == 1) || len(tokens) > 1 {
			t.Fatalf("token %v, and %q", got.hasToken, tokens)
		}
		if got.hasToken && !bytes.Equal(got.token, bytes.TrimSpace(tokens[0])) {
			t.Fatalf("token %q, and %q", got.token, tokens)
		}
		if got.forwarded != (len(h.PeekAll(forwardedHeader)) > 0) {
			t.Fatalf("forwarded %v", got.forwarded)
		}
	})
}
