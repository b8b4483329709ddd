package webhook

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/internal/httpserve"
	"seedbed/webhook/signature"
)

// The pitfalls of receivers that are known from others, one test each.

func deliver(t *testing.T, s *service, hook string, h map[string]string, body string) answer {
	t.Helper()
	return s.raw(t, message("POST", "/hooks/"+hook, h, body))
}

// 1: what is signed are the bytes, and nothing of them is parsed before.
func TestPitfall01RawBytesVerifiedBeforeParsing(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: l})
	key, now := vectorKey(t), time.Now()
	odd := "{ \"profile\" :\"small\",\n\t\"name\":\"\\u0077eb1\", \"action\":\"create\" }\n"
	if got := deliver(t, s, "ci", signed(key, "msg_1", now, odd), odd); got.status != 202 {
		t.Errorf("odd white space: %d %s", got.status, got.body)
	}
	h := signed(key, "msg_2", now, "{")
	h["webhook-signature"] = vectorSignature
	if got := deliver(t, s, "ci", h, "{"); got.status != 401 || strings.Contains(got.body, "JSON") {
		t.Errorf("not JSON, and not signed: %d %s", got.status, got.body)
	}
}

// 2: bodies and headers are bounded, and no sender keeps a connection by being slow.
func TestPitfall02BoundsAndTimeouts(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	c := Config{Hooks: testDirectory(t), Intake: l, MaxBody: 2 * seedbed.KiB}
	s := start(t, c, func(s *Server) { s.bounds.read = 300 * time.Millisecond })
	large := strings.Repeat(" ", 3000)
	if got := deliver(t, start(t, c), "ci", signed(vectorKey(t), "msg_1", time.Now(), large), large); got.status != 413 {
		t.Errorf("%d %s, want 413", got.status, got.body)
	}
	whole := message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create)
	inParts := message("POST", "/hooks/ci", chunked(signed(vectorKey(t), "msg_1", time.Now(), create)), "5\r\n")
	for _, test := range []struct {
		name, begin string
		drip        bool // and a byte now and then, for ever
	}{
		{"the body stands still", whole[:len(whole)-5], false},
		{"the body drips", strings.Replace(whole, "Content-Length: ", "Content-Length: 1", 1), true},
		{"a chunk stands still", inParts, false},
		{"the header stands still", whole[:40], false},
		{"the header drips", "POST /hooks/ci HTTP/1.1\r\nX-Long: ", true},
		{"nothing comes", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			io.WriteString(conn, test.begin)
			done := make(chan struct{})
			dripping := make(chan struct{})
			go func() {
				defer close(dripping)
				for test.drip {
					select {
					case <-done:
						return
					case <-time.After(10 * time.Millisecond):
						io.WriteString(conn, "x")
					}
				}
			}()
			got, err := receive(bufio.NewReader(conn))
			close(done)
			<-dripping
			if err != nil || got.status != 408 || !got.close {
				t.Errorf("%+v (%v), want 408 and the connection closed", got, err)
			}
		})
	}
	t.Cleanup(func() {
		if len(l.requests) != 0 {
			t.Errorf("submitted %v", l.requests)
		}
	})
	r := &receiver{Server: New(Config{})}
	server := r.app().Server()
	for name, d := range map[string]time.Duration{"read": server.ReadTimeout, "write": server.WriteTimeout, "idle": server.IdleTimeout} {
		if d <= 0 || d > 2*time.Minute {
			t.Errorf("%s timeout %s", name, d)
		}
	}
}

// 6: headers that come twice, folded or joined are refused.
func TestPitfall06DuplicateHeaders(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	good := message("POST", "/hooks/ci", signed(vectorKey(t), "msg_1", time.Now(), create), create)
	for _, name := range signature.Deciding {
		twice := strings.Replace(good, "Host: seedbed\r\n", "Host: seedbed\r\n"+name+": a\r\n"+name+": a\r\n", 1)
		if got := s.raw(t, twice); got.status != 400 {
			t.Errorf("two of %s: %d", name, got.status)
		}
	}
	folded := strings.Replace(good, "webhook-id: msg_1", "webhook-id: msg_1\r\n x", 1)
	joined := strings.Replace(good, "webhook-id: msg_1", "webhook-id: msg_1, msg_1", 1)
	for request, status := range map[string]int{folded: 400, joined: 401} {
		if got := s.raw(t, request); got.status != status {
			t.Errorf("%d %s, want %d", got.status, got.body, status)
		}
	}
}

// 11: a clock that is not synchronised raises an alarm, and loosens nothing.
func TestPitfall11ClockAlarm(t *testing.T) {
	t.Parallel()
	if c := clockCheck(unix.STA_UNSYNC, nil); c.OK || c.Hint == "" {
		t.Errorf("%+v", c)
	}
	if c := clockCheck(unix.STA_PLL, nil); !c.OK {
		t.Errorf("%+v", c)
	}
	if all := CheckClock(t.Context()); len(all) != 1 || all[0].Name != "clock" {
		t.Errorf("%+v", all)
	}
}

// 12: who asks before sending is told to go on, and a body in chunks is read like any other.
func TestPitfall12ExpectAndChunks(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	for name, test := range map[string]struct {
		frame func(map[string]string) map[string]string
		body  string
	}{
		"length": {maps.Clone[map[string]string], create},
		"chunks": {chunked, chunk(create)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := test.frame(signed(vectorKey(t), "msg_1", time.Now(), create))
			h["Expect"] = "100-continue"
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			r := bufio.NewReader(conn)
			for _, step := range []struct {
				send   string
				status int
			}{{message("POST", "/hooks/ci", h, ""), 100}, {test.body, 202}} {
				io.WriteString(conn, step.send)
				if got, err := receive(r); err != nil || got.status != step.status {
					t.Fatalf("%+v (%v), want %d", got, err, step.status)
				}
			}
		})
	}
}

// 13: nothing is inflated.
func TestPitfall13CompressionBomb(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := start(t, Config{Hooks: testDirectory(t), Intake: l})
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, create+strings.Repeat(" ", 10<<20))
	w.Close()
	h := signed(vectorKey(t), "msg_1", time.Now(), b.String())
	h["Content-Encoding"] = "gzip"
	if got := deliver(t, s, "ci", h, b.String()); got.status != 415 || len(l.requests) != 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// 14: JSON says one thing to every reader: no name twice, in another case, or deep without end.
func TestPitfall14StrictJSON(t *testing.T) {
	t.Parallel()
	nested := func(open, shut string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) }
	const tooDeep = 20_000
	for _, body := range []string{`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{} {}`, `{"a":NaN}`, `{"a":01}`, "{\"a\":\"\xff\"}",
		nested("[", "]", tooDeep), nested(`{"a":`, "}", tooDeep)} {
		if v, err := decodeJSON([]byte(body)); err == nil {
			t.Errorf("%.20s is %v", body, v)
		}
	}
	params := func(n int) string {
		return `{"action":"create","name":"web1","profile":"small","params":{"a":` + nested("[", "]", n) + `}}`
	}
	for _, body := range []string{`{"Action":"create"}`, `{"action":"create","ACTION":"remove"}`, params(tooDeep)} {
		if p, err := decode([]byte(body)); err == nil {
			t.Errorf("%.20s is %.200v", body, p)
		}
	}
	if _, err := decode([]byte(params(100))); err != nil { // it was the depth
		t.Error(err)
	}
	if _, err := decodeJSON([]byte(nested(`{"a":`, "}", 100))); err != nil {
		t.Error(err)
	}
}

// 15: X-Forwarded-For counts from trusted proxies alone.
func TestPitfall15ForwardedFor(t *testing.T) {
	t.Parallel()
	d := testDirectory(t)
	h := d.hooks["ci"]
	h.CIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	d.hooks["ci"] = h
	for _, test := range []struct {
		trusted []netip.Prefix
		status  int
	}{{nil, 401}, {[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, 202}} {
		s := start(t, Config{Hooks: d, Intake: &ledger{}, TrustedProxies: test.trusted})
		headers := signed(vectorKey(t), "msg_1", time.Now(), create)
		headers["X-Forwarded-For"] = "192.0.2.7"
		if got := deliver(t, s, "ci", headers, create); got.status != test.status {
			t.Errorf("proxies %v: %d, want %d", test.trusted, got.status, test.status)
		}
	}
}

// 16: for an unknown hook the same is done as for another, so that no time tells it: its body is read
// to its end, and held against the same limits. It is not kept, so that it needs no room.
func TestPitfall16SameWorkForUnknownHooks(t *testing.T) {
	t.Parallel()
	key := vectorKey(t)
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}}, func(s *Server) { s.bounds.bodies = 4 << 10 })
	good, gzipped := signed(key, "msg_1", time.Now(), create), signed(key, "msg_1", time.Now(), create)
	gzipped["Content-Encoding"] = "gzip"
	large, most := strings.Repeat(" ", int(MaxBody)+1), strings.Repeat(" ", int(MaxBody))
	for _, test := range []struct {
		name, hook string
		header     map[string]string
		body       string
		status     int
	}{
		{"no plain body", "unknown", gzipped, create, 415},
		{"too large", "unknown", signed(key, "msg_1", time.Now(), large), large, 413},
		{"good", "unknown", good, create, 401},
		{"of a bad name", "Unknown!", good, create, 401},
		{"more than there is room for", "unknown", signed(key, "msg_1", time.Now(), most), most, 401},
		{"more than there is room for, of another", "ci", signed(key, "msg_1", time.Now(), most), most, 503},
	} {
		got := deliver(t, s, test.hook, test.header, test.body)
		if got.status != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, got.status, got.body, test.status)
		}
		if test.status == 401 && got.close { // a connection is kept behind a body that was read to its end
			t.Errorf("%s: the body was not read", test.name)
		}
	}
}

// 17 is TestPitfall17NothingSecretInLogs, in schemes_test.go.

// 18 is TestPitfall18HostileTexts, in hostile_test.go.

// 19 is TestPitfall19TLSReload, in tls_test.go.

// 20: guests reach no hook at the address of their metadata, and keep no others out.
func TestPitfall20NotOnTheMetadataAddress(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]bool{"169.254.169.254:7371": false, "[fd00:ec2::254]:7371": false,
		"[::ffff:169.254.169.254]:7371": false, "127.0.0.1:7371": true, "10.0.0.1:80": true} {
		addr, err := net.ResolveTCPAddr("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(queued, 2)
		c := httpserve.NewConnLimiter(waiting, 1, 1, nil)
		guest, guests := net.Pipe()
		other, others := net.Pipe()
		first, second := &from{Conn: guests, local: addr}, &from{Conn: others, local: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7371}}
		waiting <- first
		waiting <- second
		taken, err := c.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := taken.LocalAddr() == net.Addr(addr); got != want {
			t.Errorf("%s: taken %t, want %t", at, got, want)
		}
		if !want {
			guest.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := guest.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s: %v, want the connection closed", at, err)
			}
		}
		for _, conn := range []net.Conn{guest, guests, other, others} {
			conn.Close()
		}
	}
}

// queued is a listener with connections in its queue.
type queued chan net.Conn

func (q queued) Accept() (net.Conn, error) { return <-q, nil }
func (q queued) Close() error              { return nil }
func (q queued) Addr() net.Addr            { return &net.TCPAddr{} }

// from is a connection between other addresses than its own, where they are given.
type from struct {
	net.Conn
	local, remote net.Addr
}

func (f *from) LocalAddr() net.Addr  { return cmp.Or(f.local, f.Conn.LocalAddr()) }
func (f *from) RemoteAddr() net.Addr { return cmp.Or(f.remote, f.Conn.RemoteAddr()) }
