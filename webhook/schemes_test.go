package webhook

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/webhook/signature"
)

// sending is a hook, and how its sender does it.
type sending struct {
	hook   seedbed.Hook
	secret string
	kind   string // of the body
	body   string
}

// header proves the body as the scheme has it, with that secret.
func (s sending) header(t testing.TB, secret, id, body string) map[string]string {
	t.Helper()
	h, err := signature.Headers(s.hook.HookSettings, secret, id, time.Now(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h["Host"], h["Content-Type"], h["Content-Length"] = "seedbed", s.kind, fmt.Sprint(len(body))
	return h
}

// sendings are of every scheme. The name of the instance, and a secret of its own, are in each
// body.
func sendings(t testing.TB) map[seedbed.Scheme]sending {
	t.Helper()
	seed := bytes.Repeat([]byte{3}, 32)
	all := map[seedbed.Scheme]sending{}
	for _, scheme := range seedbed.Schemes() {
		s := sending{secret: "a hushed text of some length", kind: "application/json", body: `{"name":"web1","user_data":"hushdata"}`}
		s.hook = seedbed.Hook{Name: string(scheme), HookSettings: of(scheme), Actions: seedbed.Actions()}
		s.hook.Mapping = `{"action": "create", "name": body.name, "profile": "small", "params": {"user_data": body.user_data}}`
		public := ""
		switch scheme {
		case seedbed.SchemeStandard, seedbed.SchemeGitLabSigned:
			s.secret = vectorSecret
		case seedbed.SchemeStandardV1a:
			s.secret, public = "whsk_"+base64.StdEncoding.EncodeToString(seed), signature.FormatPublic(seed)
		case seedbed.SchemeSlack:
			s.kind, s.body = "application/x-www-form-urlencoded", url.Values{"name": {"web1"}, "user_data": {"hushdata"}}.Encode()
		case seedbed.SchemeGeneric:
			s.hook.Form = &seedbed.HookForm{SignatureHeader: "X-Sig", TimestampHeader: "X-Time"}
		case seedbed.SchemeAlertmanager:
			s.body = `{"version":"4","groupKey":"g","name":"web1","user_data":"hushdata","alerts":[]}`
		case seedbed.SchemeNone:
			s.secret, s.hook.Insecure = "", true
		}
		if s.secret != "" {
			if public == "" {
				public = s.secret
			}
			key, err := signature.ParseKey(s.hook.HookSettings, public)
			if err != nil {
				t.Fatal(scheme, err)
			}
			s.hook.Keys = keys(key)
		}
		all[scheme] = s
	}
	return all
}

// bearer tells whether the proof is the secret itself, which says nothing about the body.
func bearer(s seedbed.Scheme) bool {
	return s == seedbed.SchemeGitLab || s == seedbed.SchemeAlertmanager
}

func hooksOf(all map[seedbed.Scheme]sending) directory {
	d := directory{hooks: map[string]seedbed.Hook{}}
	for _, s := range all {
		d.hooks[s.hook.Name] = s.hook
	}
	return d
}

// Every scheme is taken over the wire with what its senders send, and from nobody else, be the body
// JSON or a form.
func TestEveryScheme(t *testing.T) {
	t.Parallel()
	all := sendings(t)
	for scheme, sender := range all {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			l := &ledger{}
			s := start(t, Config{Hooks: hooksOf(all), Intake: l})
			good := sender.header(t, sender.secret, "evt_1", sender.body)
			if got := deliver(t, s, string(scheme), good, sender.body); got.status != 202 || !strings.Contains(got.body, `"job"`) {
				t.Fatalf("%d %s", got.status, got.body)
			}
			if len(l.requests) != 1 || l.requests[0].Name != "web1" || l.requests[0].Params["user_data"] != "hushdata" {
				t.Errorf("requests %+v", l.requests)
			}
			if scheme == seedbed.SchemeNone {
				return
			}
			altered := strings.Replace(sender.body, "web1", "web2", 1)
			status := 401
			if bearer(scheme) {
				status = 202
			}
			if got := deliver(t, s, string(scheme), good, altered); got.status != status {
				t.Errorf("another body: %d %s, want %d", got.status, got.body, status)
			}
			other := signature.FormatSecret(bytes.Repeat([]byte{9}, 32))
			if scheme == seedbed.SchemeStandardV1a {
				other = "whsk_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))
			}
			if got := deliver(t, s, string(scheme), sender.header(t, other, "evt_2", sender.body), sender.body); got.status != 401 {
				t.Errorf("another secret: %d %s", got.status, got.body)
			}
			for name := range good {
				if slices.Contains([]string{"Host", "Content-Type", "Content-Length", "idempotency-key"}, name) {
					continue
				}
				if got := deliver(t, s, string(scheme), without(maps.Clone(good), name), sender.body); got.status != 400 && got.status != 401 {
					t.Errorf("without %s: %d %s", name, got.status, got.body)
				}
			}
		})
	}
}

// afar is a listener whose connections come from another host.
type afar struct{ net.Listener }

func (a afar) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &from{Conn: conn, remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:4000"))}, nil
}

// From another host a secret must come encrypted, and who proves nothing is not heard.
func TestSchemesFromAfar(t *testing.T) {
	t.Parallel()
	all := sendings(t)
	for _, encrypted := range []bool{false, true} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &ledger{}
		c := Config{Hooks: hooksOf(all), Intake: l}
		var a *authority
		if encrypted {
			_, a = secure(t, &c)
		}
		s := startOn(t, afar{ln}, c)
		for scheme, sender := range all {
			header := sender.header(t, sender.secret, "evt_1", sender.body)
			want, before, status := 202, len(l.requests), 0
			if scheme == seedbed.SchemeNone || bearer(scheme) && !encrypted {
				want = 401
			}
			if encrypted {
				status, _ = post(t, s, a, "/hooks/"+string(scheme), header, sender.body)
			} else {
				status = deliver(t, s, string(scheme), header, sender.body).status
			}
			if status != want || (len(l.requests) > before) != (want == 202) {
				t.Errorf("%s, encrypted %t: %d after %d requests, want %d", scheme, encrypted, status, len(l.requests)-before, want)
			}
		}
	}
}

// 17: the log has the digest of a body, and nothing of it, nor of signatures and keys, with every
// scheme and whatever becomes of a delivery.
func TestPitfall17NothingSecretInLogs(t *testing.T) {
	t.Parallel()
	refusal := seedbed.Errorf(seedbed.ErrInvalid, "hushdata is no data")
	for name, test := range map[string]struct {
		change func(*seedbed.Hook)
		err    error
		status int
		says   string // of the log
	}{
		"accepted":         {func(*seedbed.Hook) {}, nil, 202, "webhook accepted"},
		"ignored":          {func(h *seedbed.Hook) { h.When = `body.user_data == "other"` }, nil, 202, "webhook ignored"},
		"refused":          {func(*seedbed.Hook) {}, refusal, 422, "status=422"},
		"not possible now": {func(*seedbed.Hook) {}, seedbed.ErrUnavailable, 503, "status=503"},
		"a rule fails":     {func(h *seedbed.Hook) { h.When = `int(body.user_data) > 1` }, nil, 422, "status=422"},
		"a mapping fails": {func(h *seedbed.Hook) {
			h.Mapping = `{"action": "create", "name": [body.user_data][7], "profile": "small"}`
		}, nil, 422, "status=422"},
		"another action": {func(h *seedbed.Hook) { h.Mapping = `{"action": body.user_data, "name": "web1", "profile": "small"}` }, nil,
			403, "status=403"},
		"not proved": {func(h *seedbed.Hook) {
			h.Keys, h.CIDRs = keys(bytes.Repeat([]byte{9}, 32)), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}, nil, 401, "webhook refused"},
		"not from there": {func(h *seedbed.Hook) { h.CIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }, nil, 401,
			"webhook refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := sendings(t)
			d := hooksOf(all)
			for name, h := range d.hooks {
				test.change(&h)
				d.hooks[name] = h
			}
			s := start(t, Config{Hooks: d, Intake: &ledger{err: test.err}})
			for scheme, sender := range all {
				if scheme == seedbed.SchemeNone && name == "not proved" {
					continue
				}
				before := len(s.log.String())
				header := sender.header(t, sender.secret, "evt_1", sender.body)
				header["X-Api-Key"], header["Cookie"] = "hushcookie", "hushcookie"
				if got := deliver(t, s, string(scheme)+"?token=hushquery&zone=hushquery", header, sender.body); got.status != test.status {
					t.Errorf("%s: %d %s, want %d", scheme, got.status, got.body, test.status)
				}
				log := s.log.String()[before:]
				secrets := []string{"hushdata", "hushquery", "hushcookie"}
				if sender.secret != "" {
					secrets = append(secrets, sender.secret, strings.TrimPrefix(strings.TrimPrefix(sender.secret, "whsec_"), "whsk_"))
				}
				for name, value := range header {
					if strings.Contains(name, "sig") { // v1,… or v0=… or t=…,v1=…
						secrets = append(secrets, value[strings.LastIndexAny(strings.TrimRight(value, "="), ",=")+1:])
					}
				}
				for _, secret := range secrets {
					if strings.Contains(log, secret) {
						t.Errorf("%s: the log holds %q:\n%s", scheme, secret, log)
					}
				}
				if !strings.Contains(log, test.says) || strings.Contains(log, "sha256=") != (test.status != 401) {
					t.Errorf("%s: want %q and the digest in the log:\n%s", scheme, test.says, log)
				}
			}
		})
	}
}
