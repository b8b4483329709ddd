package outbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seedbed"
)

var event = seedbed.Outgoing{ID: "msg_1", Seq: 1, Type: "job.succeeded", Subject: "web1", Data: []byte(`{}`),
	At: time.Unix(1_700_000_000, 0).UTC()}

// endpointAt is an endpoint that may be on this host.
func endpointAt(url string) seedbed.Endpoint {
	return seedbed.Endpoint{Name: "ci", URL: url, AllowPrivate: true, Enabled: true,
		Keys: []seedbed.EndpointKey{{Key: bytes.Repeat([]byte{7}, 32)}}}
}

func receiver(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := atomic.Bool{}
	other := receiver(t, func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) })
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		says   string // empty for success
		after  time.Duration
	}{
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, "", 0},
		{"accepted", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, 202, "", 0},
		{"error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, 500, "it answered 500", 0},
		{"refused", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 400) }, 400, "it answered 400", 0},
		{"gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, 410, "it answered 410 Gone", 0},
		{"later", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "77")
			w.WriteHeader(503)
		}, 503, "it answered 503", 77 * time.Second},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, 307) }, 307, "redirects are not followed", 0},
		{"moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, 301) }, 301, "redirects are not followed", 0},
		{"large body", func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, 200, "", 0},
		{"large header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 64<<10)) }, 0, "exceeded", 0},
		{"hostile reason", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 500 \x1b[2Jall is well\r\nContent-Length: 0\r\n\r\n")
		}, 500, "it answered 500 Internal Server Error", 0},
		{"cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "EOF", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newSender().send(t.Context(), endpointAt(receiver(t, test.answer)), event)
			if r.status != test.status || r.retryAfter != test.after || r.timeout || (r.err == "") != (test.says == "") ||
				!strings.Contains(r.err, test.says) || r.took <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Cleanup(func() {
		if elsewhere.Load() {
			t.Error("a redirect was followed")
		}
	})
}

// What a receiver can bring into an error is told as text of some length.
func TestExplainIsPlain(t *testing.T) {
	t.Parallel()
	text, timeout := explain(errors.New("valid for \x1b[2Jevil\r\n, not " + strings.Repeat("x", 100_000)))
	if timeout || len(text) > 1000 || !strings.HasPrefix(text, "valid for ?[2Jevil??, not xxx") {
		t.Errorf("%d bytes, %.60q, timeout %t", len(text), text, timeout)
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	const nobodys = "http://127.0.0.1:1" // a port that was closed may be another test's
	r := newSender().send(t.Context(), endpointAt(nobodys), event)
	if !strings.Contains(r.err, "connection refused") || r.timeout || r.status != 0 {
		t.Errorf("%+v", r)
	}
}

// A receiver that never answers, or whose answer never ends, costs no more than the time of an
// attempt.
func TestSlow(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(http.ResponseWriter){
		"no answer": func(http.ResponseWriter) {},
		"no header": func(http.ResponseWriter) {},
		"no end": func(w http.ResponseWriter) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				begin(w)
				<-r.Context().Done()
			})
			s := newSender()
			s.total, s.header, s.body = time.Minute, time.Minute, time.Minute
			switch name {
			case "no answer":
				s.total = 200 * time.Millisecond
			case "no header":
				s.header = 200 * time.Millisecond
			case "no end": // its status is known: it is not waited for as long
				s.body = 200 * time.Millisecond
			}
			began := time.Now()
			r := s.send(t.Context(), endpointAt(url), event)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			if name != "no end" && (!r.timeout || r.status != 0 || !strings.Contains(r.err, "in time")) || name == "no end" &&
				(r.status != 200 || r.err != "") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// names is a resolver that gives every name those addresses.
func names(t *testing.T, addrs ...string) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if _, err := pc.WriteTo(answer(buf[:n], addrs), from); err != nil {
				return
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// answer makes the answer to a DNS question (RFC 1035 4.1): the records of the type asked for.
func answer(question []byte, addrs []string) []byte {
	end := 12 // the header
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 5 // the root, type and class
	kind := binary.BigEndian.Uint16(question[end-4:])
	a := append([]byte{}, question[:end]...)
	a[2], a[3] = 0x81, 0x80               // an answer, no error
	a[8], a[9], a[10], a[11] = 0, 0, 0, 0 // no authority, nothing additional
	count := uint16(0)
	for _, s := range addrs {
		ip := netip.MustParseAddr(s)
		if ip.Is4() != (kind == 1) || !ip.Is4() && kind != 28 {
			continue
		}
		raw := ip.AsSlice()
		a = append(a, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		a = append(a, raw...)
		count++
	}
	binary.BigEndian.PutUint16(a[6:], count)
	return a
}

// An address that is forbidden is not connected to, however the name hides it.
func TestForbidden(t *testing.T) {
	t.Parallel()
	touched := atomic.Bool{}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(receiver(t, func(http.ResponseWriter,
		*http.Request) {
		touched.Store(true)
	}), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	private := func(e *seedbed.Endpoint) { e.AllowPrivate = false; e.Insecure = true }
	for _, test := range []struct {
		name  string
		addrs []string
		set   func(*seedbed.Endpoint)
		says  string
	}{
		{"loopback", []string{"127.0.0.1"}, private, "127.0.0.1 is not a public one"},
		{"private", []string{"10.1.2.3"}, private, "10.1.2.3 is not a public one"},
		{"IPv6 loopback", []string{"::1"}, private, "::1 is not a public one"},
		{"one of several", []string{"127.0.0.1", "127.0.0.2"}, private, "is not a public one"},
		{"metadata", []string{"169.254.169.254"}, func(*seedbed.Endpoint) {}, "169.254.169.254 is never connected to"},
		{"metadata, IPv6", []string{"fd00:ec2::254"}, func(*seedbed.Endpoint) {}, "fd00:ec2::254 is never connected to"},
		{"metadata in NAT64", []string{"64:ff9b::a9fe:a9fe"}, func(*seedbed.Endpoint) {}, "is never connected to"},
		{"this host", []string{"0.0.0.0"}, func(*seedbed.Endpoint) {}, "0.0.0.0 is never connected to"},
		{"plain http to a public one", []string{"8.8.8.8"}, func(*seedbed.Endpoint) {}, "8.8.8.8 is a public one, where plain http is not sent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newSender()
			s.resolver = names(t, test.addrs...)
			e := endpointAt("http://receiver.example:" + port + "/hook")
			test.set(&e)
			if r := s.send(t.Context(), e, event); !strings.Contains(r.err, test.says) || r.status != 0 {
				t.Errorf("%+v, want %q", r, test.says)
			}
		})
	}
	t.Run("literal", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"127.0.0.1", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "localhost"} {
			e := endpointAt("http://" + host + ":" + port)
			private(&e)
			if r := newSender().send(t.Context(), e, event); r.err == "" || r.status != 0 {
				t.Errorf("%s: %+v", host, r)
			}
		}
	})
	t.Cleanup(func() {
		if touched.Load() {
			t.Error("the receiver was connected to")
		}
	})
	// Where it is allowed, the same name leads there.
	s := newSender()
	s.resolver = names(t, "127.0.0.1")
	allowed := receiver(t, func(http.ResponseWriter, *http.Request) {})
	_, port, _ = net.SplitHostPort(strings.TrimPrefix(allowed, "http://"))
	if r := s.send(t.Context(), endpointAt("http://receiver.example:"+port), event); r.err != "" {
		t.Errorf("%+v", r)
	}
}

func TestNoProxy(t *testing.T) {
	proxied := atomic.Bool{}
	proxy := receiver(t, func(http.ResponseWriter, *http.Request) { proxied.Store(true) })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	s := newSender()
	s.resolver = names(t, "127.0.0.1") // net/http never asks a proxy for localhost
	url := strings.Replace(receiver(t, func(http.ResponseWriter, *http.Request) {}), "127.0.0.1", "receiver.example", 1)
	if r := s.send(t.Context(), endpointAt(url), event); r.err != "" || proxied.Load() {
		t.Errorf("%+v, proxied %v", r, proxied.Load())
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	if r := newSender().send(t.Context(), endpointAt(server.URL), event); !strings.Contains(r.err, "certificate") {
		t.Errorf("an unknown certificate: %+v", r)
	}
	s := newSender()
	s.tls.RootCAs = x509.NewCertPool()
	s.tls.RootCAs.AddCert(server.Certificate())
	if r := s.send(t.Context(), endpointAt(server.URL), event); r.err != "" || r.status != 200 {
		t.Errorf("%+v", r)
	}
	s.resolver = names(t, "127.0.0.1")
	other := strings.Replace(server.URL, "127.0.0.1", "receiver.test", 1)
	if r := s.send(t.Context(), endpointAt(other), event); !strings.Contains(r.err, "not receiver.test") {
		t.Errorf("another's certificate: %+v", r)
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.StartTLS()
	t.Cleanup(old.Close)
	if r := s.send(t.Context(), endpointAt(old.URL), event); !strings.Contains(r.err, "protocol version") {
		t.Errorf("TLS 1.1: %+v", r)
	}
}
