package webhook

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
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
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}, MaxBody: 2 * seedbed.KiB})
	large := strings.Repeat(" ", 3000)
	if got := deliver(t, s, "ci", signed(vectorKey(t), "msg_1", time.Now(), large), large); got.status != 413 {
		t.Errorf("%d %s, want 413", got.status, got.body)
	}
	r := &receiver{Server: s.server}
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
	for _, request := range []string{folded, joined} {
		if got := s.raw(t, request); got.status != 400 {
			t.Errorf("%d %s", got.status, got.body)
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

// 12: Expect and chunked bodies are read like any other.
func TestPitfall12ExpectAndChunks(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	h := chunked(signed(vectorKey(t), "msg_1", time.Now(), create))
	h["Expect"] = "100-continue"
	if got := deliver(t, s, "ci", h, chunk(create)); got.status != 202 {
		t.Errorf("%d %s", got.status, got.body)
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
	for _, body := range []string{`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{} {}`, `{"a":NaN}`, `{"a":01}`, "{\"a\":\"\xff\"}", strings.Repeat("[", 100_000)} {
		if v, err := decodeJSON([]byte(body)); err == nil {
			t.Errorf("%.20s is %v", body, v)
		}
	}
	for _, body := range []string{`{"Action":"create"}`, `{"action":"create","ACTION":"remove"}`} {
		if p, err := decode([]byte(body)); err == nil {
			t.Errorf("%s is %+v", body, p)
		}
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
	}{{nil, 403}, {[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, 202}} {
		s := start(t, Config{Hooks: d, Intake: &ledger{}, TrustedProxies: test.trusted})
		headers := signed(vectorKey(t), "msg_1", time.Now(), create)
		headers["X-Forwarded-For"] = "192.0.2.7"
		if got := deliver(t, s, "ci", headers, create); got.status != test.status {
			t.Errorf("proxies %v: %d, want %d", test.trusted, got.status, test.status)
		}
	}
}

// 16: an unknown hook takes as long as a wrong signature.
func TestPitfall16SameWorkForUnknownHooks(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{}})
	body := strings.Repeat(" ", int(MaxBody))
	h := signed(vectorKey(t), "msg_1", time.Now(), body)
	h["webhook-signature"] = vectorSignature
	took := map[string][]time.Duration{}
	for range 60 {
		for _, hook := range []string{"ci", "nobody"} {
			began := time.Now()
			deliver(t, s, hook, h, body)
			took[hook] = append(took[hook], time.Since(began))
		}
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	known, unknown := median(took["ci"]), median(took["nobody"])
	if known > 3*unknown || unknown > 3*known {
		t.Errorf("%s for a hook that there is, %s for another", known, unknown)
	}
}

// 17: the log has the digest of a body, and nothing of it, nor of signatures and keys.
func TestPitfall17NothingSecretInLogs(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Hooks: testDirectory(t), Intake: &ledger{err: seedbed.Errorf(seedbed.ErrInvalid, "hushname is no name")}})
	body := `{"action":"create","name":"hushname","profile":"small","params":{"user_data":"hushdata"}}`
	h := signed(vectorKey(t), "msg_1", time.Now(), body)
	deliver(t, s, "ci", h, body)
	deliver(t, s, "nobody", h, body)
	h["webhook-signature"] = vectorSignature
	deliver(t, s, "ci", h, body)
	log := s.log.String()
	for _, secret := range []string{"hushname", "hushdata", vectorSignature[3:], vectorSecret[6:], h["webhook-signature"][3:]} {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	if !strings.Contains(log, "sha256=") {
		t.Error("the log holds no digest")
	}
}

// 18: what a payload names never becomes a path, a command or XML: only host names get so far.
func TestPitfall18HostileNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../../etc/passwd", "$(reboot)", "a;b", "<name/>", "a\x00b", "-rf", "a/b", strings.Repeat("a", 64), "A", "a..b"} {
		if err := seedbed.CheckInstanceName(name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// 19 is TestPitfall19TLSReload, in tls_test.go.

// 20: guests reach no hook at the address of their metadata.
func TestPitfall20NotOnTheMetadataAddress(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]bool{"169.254.169.254:7371": true, "[fd00:ec2::254]:7371": true, "[::ffff:169.254.169.254]:7371": true, "127.0.0.1:7371": false, "10.0.0.1:80": false} {
		addr, err := net.ResolveTCPAddr("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if got := atMetadata(localAddr{addr: addr}); got != want {
			t.Errorf("%s: %t", at, got)
		}
	}
}

// localAddr is a connection that came in at an address.
type localAddr struct {
	net.Conn
	addr net.Addr
}

func (l localAddr) LocalAddr() net.Addr { return l.addr }
