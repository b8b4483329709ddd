package webhook

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/header"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"
)

func TestRateLimiters(t *testing.T) {
	t.Parallel()
	var g rateLimiters
	now := time.Unix(1000, 0)
	limited := seedbed.Hook{Name: "h", HookSettings: seedbed.HookSettings{Rate: 2}}
	for k := range 3 {
		leave, wait := g.enter(limited, now)
		if (leave == nil) != (k == 2) || k == 2 && (wait <= 0 || wait > time.Second) {
			t.Fatalf("delivery %d: entered %t, wait %s", k, leave != nil, wait)
		}
	}
	if leave, _ := g.enter(limited, now.Add(time.Second)); leave == nil {
		t.Error("none after a second")
	}
	few := seedbed.Hook{Name: "few", HookSettings: seedbed.HookSettings{Concurrency: 1}}
	leave, _ := g.enter(few, now)
	if again, wait := g.enter(few, now); again != nil || wait <= 0 {
		t.Error("two at a time")
	}
	leave()
	if again, _ := g.enter(few, now); again == nil {
		t.Error("none after the first has left")
	}
}

func TestPeer(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, test := range map[string]struct {
		remote, forwarded, want string
		local                   bool
		also                    []string
	}{
		"a browser on this host":   {"127.0.0.1:5", "", "127.0.0.1", false, []string{"origin"}},
		"a proxy of few words":     {"127.0.0.1:5", "", "127.0.0.1", false, []string{"x-forwarded-proto"}},
		"a proxy of other words":   {"127.0.0.1:5", "", "127.0.0.1", false, []string{"x-real-ip"}},
		"direct":                   {"192.0.2.1:5", "", "192.0.2.1", false, nil},
		"this host":                {"127.0.0.1:5", "", "127.0.0.1", true, nil},
		"this host, in IPv6":       {"[::1]:5", "", "::1", true, nil},
		"forwarded by a stranger":  {"192.0.2.1:5", "127.0.0.1", "192.0.2.1", false, nil},
		"forwarded by this host":   {"127.0.0.1:5", "192.0.2.9", "127.0.0.1", false, nil},
		"forwarded by a proxy":     {"10.1.1.1:5", "192.0.2.9", "192.0.2.9", false, nil},
		"what the sender said":     {"10.1.1.1:5", "127.0.0.1, 192.0.2.9", "192.0.2.9", false, nil},
		"two proxies":              {"10.1.1.1:5", "192.0.2.9, 10.2.2.2", "192.0.2.9", false, nil},
		"nonsense":                 {"10.1.1.1:5", "x", "10.1.1.1", false, nil},
		"mapped":                   {"[::ffff:10.1.1.1]:5", "::ffff:192.0.2.9", "192.0.2.9", false, nil},
		"proxy that says loopback": {"10.1.1.1:5", "127.0.0.1", "127.0.0.1", false, nil},
	} {
		f := header.Fields{}
		if test.forwarded != "" {
			f["x-forwarded-for"] = []string{test.forwarded}
		}
		at, err := net.ResolveTCPAddr("tcp", test.remote)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range test.also {
			f[name] = []string{"x"}
		}
		if p := peerOf(at, f, trusted); p.addr.String() != test.want || p.local() != test.local {
			t.Errorf("%s: %s (local %t), want %s (%t)", name, p.addr, p.local(), test.want, test.local)
		}
	}
}

// Nothing that may prove who sent it goes into the history or before the rules.
func TestShownAndKept(t *testing.T) {
	t.Parallel()
	f := header.Fields{}
	for _, name := range []string{"webhook-id", "webhook-signature", "x-hub-signature-256", "x-gitlab-token", "authorization", "cookie",
		"stripe-signature", "x-slack-signature", "x-api-key", "x-my-mac", "x-hook-key", "x-passphrase", "idempotency-key", "x-github-event"} {
		f[name] = []string{"v"}
	}
	h := seedbed.Hook{HookSettings: seedbed.HookSettings{Form: &seedbed.HookForm{SignatureHeader: "X-My-Mac"}}}
	headers := shown(f, h)
	query := map[string]string{"zone": "a", "token": "hush", "key": "hush", "pwd": "hush", "sig": "hush", "big": string(make([]byte, 5000))}
	got := kept(headers, query)
	if len(got["?big"]) > maxKeptValue+5 {
		t.Errorf("a value of %d bytes is kept", len(got["?big"]))
	}
	delete(got, "?big")
	if diff := cmp.Diff(map[string]string{"webhook-id": "v", "idempotency-key": "v", "x-github-event": "v", "?zone": "a"}, got); diff != "" {
		t.Error(diff)
	}
	backHeaders, backQuery := unkept(got)
	if diff := cmp.Diff(map[string]string{"zone": "a"}, backQuery); diff != "" || backHeaders["webhook-id"] != "v" || len(backHeaders) != 3 {
		t.Error(diff, backHeaders)
	}
}

func TestPreferred(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 0, "wait=30": 30 * time.Second, "respond-async, wait=5": 5 * time.Second, "wait=9999": maxWait,
		"await=5": 0, "wait=-1": 0, "wait=x": 0, "wait=30; foo": 30 * time.Second, "wait=99999999": 0,
	} {
		if got := preferred(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// A secret in clear is refused where others could read it.
func TestOverheard(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, test := range map[string]struct {
		scheme seedbed.Scheme
		remote string
		want   bool
	}{
		"a secret from afar":        {seedbed.SchemeGitLab, "192.0.2.1:5", true},
		"a bearer token from afar":  {seedbed.SchemeAlertmanager, "[2001:db8::1]:5", true},
		"a secret from this host":   {seedbed.SchemeGitLab, "127.0.0.1:5", false},
		"a secret through a proxy":  {seedbed.SchemeGitLab, "10.1.1.1:5", false},
		"a signature from afar":     {seedbed.SchemeGitHub, "192.0.2.1:5", false},
		"a signed token from afar":  {seedbed.SchemeGitLabSigned, "192.0.2.1:5", false},
		"a mapped proxy's secret":   {seedbed.SchemeGitLab, "[::ffff:10.1.1.1]:5", false},
		"a secret from a neighbour": {seedbed.SchemeGitLab, "[fe80::1]:5", true},
	} {
		c := &fasthttp.RequestCtx{}
		c.Init(&fasthttp.Request{}, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.remote)), nil)
		h := seedbed.Hook{HookSettings: of(test.scheme)}
		if got := insecureTransport(c, h, trusted); got != test.want {
			t.Errorf("%s: insecureTransport %t, want %t", name, got, test.want)
		}
	}
}
