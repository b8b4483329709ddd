package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/header"
)

const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&" +
	"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&" +
	"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&" +
	"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

// The vectors that the makers of the schemes publish.
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		scheme  seedbed.Scheme
		secret  string
		headers map[string]string
		body    string
		at      time.Time
	}{
		{"Standard Webhooks v1", seedbed.SchemeStandard, vectorSecret,
			map[string]string{HeaderID: vectorID, HeaderTimestamp: vectorTimestamp, HeaderSignature: vectorSignature}, vectorBody, vectorTime},
		{"GitLab's signing token", seedbed.SchemeGitLabSigned, vectorSecret,
			map[string]string{HeaderID: vectorID, HeaderTimestamp: vectorTimestamp, HeaderSignature: vectorSignature}, vectorBody, vectorTime},
		{"Standard Webhooks v1a", seedbed.SchemeStandardV1a, "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
			map[string]string{HeaderID: vectorID, HeaderTimestamp: vectorTimestamp, HeaderSignature: vectorV1A}, vectorBody, vectorTime},
		{"GitHub", seedbed.SchemeGitHub, "It's a Secret to Everybody",
			map[string]string{"x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
				"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}, "Hello, World!", vectorTime},
		{"Slack", seedbed.SchemeSlack, "8f742231b10e8888abcd99yyyzzz85a5",
			map[string]string{"x-slack-request-timestamp": "1531420618",
				"x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"}, slackBody, time.Unix(1531420618, 0)},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			key, err := ParseKey(of(v.scheme), v.secret)
			if err != nil {
				t.Fatal(err)
			}
			h := hookOf(v.scheme, key)
			if err := verifyHeaders(h, fieldsOf(v.headers), v.body, v.at); err != nil {
				t.Error(err)
			}
			if err := verifyHeaders(h, fieldsOf(v.headers), v.body+" ", v.at); err == nil {
				t.Error("another body is accepted")
			}
		})
	}
}

func fieldsOf(m map[string]string) header.Fields {
	f := header.Fields{}
	for k, v := range m {
		f[k] = []string{v}
	}
	return f
}

var seed = bytes.Repeat([]byte{3}, ed25519.SeedSize)

// sender is a hook, and the secret of who sends to it.
type sender struct {
	hook   seedbed.Hook
	secret string
}

// senders are hooks of every scheme that signs.
func senders(t testing.TB) map[seedbed.Scheme]sender {
	t.Helper()
	all := map[seedbed.Scheme]sender{}
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	for scheme, secret := range map[seedbed.Scheme]string{
		seedbed.SchemeStandard: vectorSecret, seedbed.SchemeGitLabSigned: vectorSecret,
		seedbed.SchemeStandardV1a: privatePrefix + base64.StdEncoding.EncodeToString(seed),
		seedbed.SchemeGitHub:      "a secret of some length", seedbed.SchemeGitLab: "a token of some length",
		seedbed.SchemeStripe: "whsec_0123456789abcdef", seedbed.SchemeSlack: "8f742231b10e8888abcd99yyyzzz85a5",
		seedbed.SchemeGeneric: "a secret of some length", seedbed.SchemeAlertmanager: "a token of some length",
	} {
		h := seedbed.Hook{Name: string(scheme), HookSettings: of(scheme), Actions: seedbed.Actions()}
		if scheme == seedbed.SchemeGeneric {
			h.Form = &seedbed.HookForm{SignatureHeader: "X-Sig", Prefix: "v2=", Separator: ",", Encoding: "base64", Algorithm: "sha512",
				Signed: "{timestamp}:{id}.{body}", TimestampHeader: "X-Time", IDHeader: "X-Event"}
		}
		text := secret
		if scheme == seedbed.SchemeStandardV1a {
			text = publicPrefix + base64.StdEncoding.EncodeToString(public)
		}
		key, err := ParseKey(h.HookSettings, text)
		if err != nil {
			t.Fatal(scheme, err)
		}
		h.Keys = keys(key)
		all[scheme] = sender{h, secret}
	}
	return all
}

// What Headers signs is accepted, and nothing else is: not under another time, with another key, or
// with anything of it changed.
func TestSchemesVerifyWhatTheySign(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for scheme, s := range senders(t) {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			headers, err := Headers(s.hook.HookSettings, s.secret, "evt_1", now, []byte(vectorBody))
			if err != nil {
				t.Fatal(err)
			}
			if err := verifyHeaders(s.hook, fieldsOf(headers), vectorBody, now); err != nil {
				t.Fatal(err)
			}
			if err := verifyHeaders(withKey(s.hook, bytes.Repeat([]byte{9}, 32)), fieldsOf(headers), vectorBody, now); err == nil {
				t.Error("another key is accepted")
			}
			bearer := scheme == seedbed.SchemeGitLab || scheme == seedbed.SchemeAlertmanager
			if err := verifyHeaders(s.hook, fieldsOf(headers), vectorBody+" ", now); (err == nil) != bearer {
				t.Errorf("another body: %v", err)
			}
			if timed := scheme != seedbed.SchemeGitHub && !bearer; timed {
				for _, off := range []time.Duration{6 * time.Minute, -6 * time.Minute} {
					if err := verifyHeaders(s.hook, fieldsOf(headers), vectorBody, now.Add(off)); err == nil {
						t.Errorf("accepted %s off", off)
					}
				}
			}
			unsigned := map[string]bool{"x-github-delivery": true, "idempotency-key": true}
			for name, value := range headers {
				for _, other := range []string{"", value + "0", "0" + value, strings.ToUpper(value) + "!", value + ";" + value} {
					changed := maps.Clone(headers)
					changed[name] = other
					if err := verifyHeaders(s.hook, fieldsOf(changed), vectorBody, now); err == nil && !unsigned[name] {
						t.Errorf("%s: %q is accepted", name, other)
					}
				}
				two := fieldsOf(headers)
				two[name] = append(two[name], value)
				if err := verifyHeaders(s.hook, two, vectorBody, now); err == nil {
					t.Errorf("two of %s are accepted", name)
				}
			}
		})
	}
}

// Stripe's header may hold several signatures while a secret is rolled, and tags of other versions,
// which prove nothing.
func TestStripeTags(t *testing.T) {
	t.Parallel()
	h := hookOf(seedbed.SchemeStripe, []byte("whsec_0123456789abcdef"))
	now := time.Unix(1_700_000_000, 0)
	good := hex.EncodeToString(sha256MAC(h.Keys[0].Secret, "1700000000.", []byte(vectorBody)))
	bad := strings.Repeat("0", 64)
	for header, ok := range map[string]bool{
		"t=1700000000,v1=" + good:                              true,
		"t=1700000000,v1=" + bad + ",v1=" + good:               true,
		"t=1700000000,v1=" + good + ",v1=" + bad:               true,
		"t=1700000000,v1=" + good + ",v0=" + bad:               true,
		"v0=x,scheme=y,t=1700000000,v1=" + good:                true,
		"v1=" + good + ",t=1700000000":                         true,
		"t=1700000000,v0=" + good:                              false,
		"t=1700000000,v2=" + good:                              false,
		"t=1700000000,v1=" + bad + ",v1=" + bad:                false,
		"t=1700000000,t=1700000000,v1=" + good:                 false,
		"t=1700000001,v1=" + good:                              false,
		"v1=" + good:                                           false,
		"t=1700000000,v1=" + good + strings.Repeat(",a=b", 20): false,
	} {
		if err := verifyHeaders(h, fieldsOf(map[string]string{"stripe-signature": header}), vectorBody, now); (err == nil) != ok {
			t.Errorf("%s: %v, want accepted: %t", header, err, ok)
		}
	}
}

// What a form leaves out is sha256, hexadecimal, over the time, where one is given, and the body.
// The signatures are made apart from the code under test.
func TestForms(t *testing.T) {
	t.Parallel()
	key, now := []byte("a secret of some length"), time.Unix(1_700_000_000, 0)
	mac := func(hash func() hash.Hash, signed string) []byte {
		m := hmac.New(hash, key)
		m.Write([]byte(signed))
		return m.Sum(nil)
	}
	hexOf, base := hex.EncodeToString, base64.StdEncoding.EncodeToString
	for name, test := range map[string]struct {
		form    seedbed.HookForm
		headers map[string]string
		timed   bool
	}{
		"the least": {seedbed.HookForm{SignatureHeader: "X-Sig"}, map[string]string{"x-sig": hexOf(mac(sha256.New, vectorBody))}, false},
		"with a time": {seedbed.HookForm{SignatureHeader: "X-Sig", TimestampHeader: "X-Time"},
			map[string]string{"x-time": "1700000000", "x-sig": hexOf(mac(sha256.New, "1700000000."+vectorBody))}, true},
		"with a prefix": {seedbed.HookForm{SignatureHeader: "X-Sig", Prefix: "sha256="},
			map[string]string{"x-sig": "sha256=" + hexOf(mac(sha256.New, vectorBody))}, false},
		"base64": {seedbed.HookForm{SignatureHeader: "X-Sig", Encoding: "base64"},
			map[string]string{"x-sig": base(mac(sha256.New, vectorBody))}, false},
		"sha512": {seedbed.HookForm{SignatureHeader: "X-Sig", Algorithm: "sha512"},
			map[string]string{"x-sig": hexOf(mac(sha512.New, vectorBody))}, false},
		"several": {seedbed.HookForm{SignatureHeader: "X-Sig", Prefix: "a=", Separator: ";"},
			map[string]string{"x-sig": "b=x;a=" + strings.Repeat("0", 64) + ";a=" + hexOf(mac(sha256.New, vectorBody))}, false},
		"as Slack has it": {seedbed.HookForm{SignatureHeader: "X-Sig", TimestampHeader: "X-Time", Signed: "v0:{timestamp}:{body}", Prefix: "v0="},
			map[string]string{"x-time": "1700000000", "x-sig": "v0=" + hexOf(mac(sha256.New, "v0:1700000000:"+vectorBody))}, true},
		"with an id": {seedbed.HookForm{SignatureHeader: "X-Sig", TimestampHeader: "X-Time", IDHeader: "X-Id", Signed: "{id}.{timestamp}.{body}"},
			map[string]string{"x-time": "1700000000", "x-id": "evt_1", "x-sig": hexOf(mac(sha256.New, "evt_1.1700000000."+vectorBody))}, true},
	} {
		h := hookOf(seedbed.SchemeGeneric, key)
		h.Form = &test.form
		fields := fieldsOf(test.headers)
		if err := verifyHeaders(h, fields, vectorBody, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := verifyHeaders(h, fields, vectorBody+" ", now); err == nil {
			t.Errorf("%s: another body is accepted", name)
		}
		if err := verifyHeaders(h, fields, vectorBody, now.Add(time.Hour)); (err == nil) == test.timed {
			t.Errorf("%s, an hour later: %v", name, err)
		}
	}
}

func withKey(h seedbed.Hook, secret []byte) seedbed.Hook {
	h.Keys = keys(secret)
	return h
}

// Keys overlap while one takes over from another, and count in their time alone.
func TestRotation(t *testing.T) {
	t.Parallel()
	now := vectorTime
	old, next := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	h := seedbed.Hook{HookSettings: of(seedbed.SchemeStandard), Keys: []seedbed.HookKey{
		{ID: "old", Secret: old, NotAfter: now.Add(time.Hour)}, {ID: "next", Secret: next, NotBefore: now.Add(-time.Hour)}}}
	for _, test := range []struct {
		name string
		key  []byte
		at   time.Time
		ok   bool
	}{
		{"old, before both", old, now.Add(-2 * time.Hour), true}, {"next, before its time", next, now.Add(-2 * time.Hour), false},
		{"old, meanwhile", old, now, true}, {"next, meanwhile", next, now, true},
		{"old, after its time", old, now.Add(time.Hour), false}, {"next, after", next, now.Add(2 * time.Hour), true},
	} {
		f := standardFields("msg_1", strings.TrimSuffix(lead("", test.at), ".")[1:], Sign(test.key, "msg_1", test.at, []byte("{}")))
		if err := verifyHeaders(h, f, "{}", test.at); (err == nil) != test.ok {
			t.Errorf("%s: %v, want accepted: %t", test.name, err, test.ok)
		}
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	first, err := alertmanager{}.Identify(Claim{},
		[]byte(`{"version":"4","groupKey":"g","alerts":[{"status":"firing","fingerprint":"a","startsAt":"1"},`+
			`{"status":"firing","fingerprint":"b","startsAt":"2"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	turned, err := alertmanager{}.Identify(Claim{},
		[]byte(`{"version":"4","groupKey":"g","truncatedAlerts":1,"alerts":[{"status":"firing","fingerprint":"b","startsAt":"2"},`+
			`{"status":"firing","fingerprint":"a","startsAt":"1"}]}`))
	if err != nil || turned != first {
		t.Errorf("the same alerts in another order: %s, want %s (%v)", turned, first, err)
	}
	resolved, err := alertmanager{}.Identify(Claim{},
		[]byte(`{"version":"4","groupKey":"g","alerts":[{"status":"resolved","fingerprint":"a","startsAt":"1"}]}`))
	if err != nil || resolved == first || !validID(resolved) {
		t.Errorf("other alerts: %s (%v)", resolved, err)
	}
	for _, body := range []string{``, `{}`, `{"version":"3","groupKey":"g"}`, `[]`} {
		if id, err := (alertmanager{}).Identify(Claim{}, []byte(body)); err == nil {
			t.Errorf("%s: %s", body, id)
		}
	}
	if id, err := (stripe{}).Identify(Claim{}, []byte(`{"id":"evt_1"}`)); id != "evt_1" || err != nil {
		t.Errorf("Stripe: %s, %v", id, err)
	}
	if id, err := (stripe{}).Identify(Claim{}, []byte(`{"id":"../x"}`)); !validID(id) || err != nil {
		t.Errorf("Stripe: %s, %v", id, err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, scheme := range seedbed.Schemes() {
		h := of(scheme)
		if scheme == seedbed.SchemeGeneric {
			h.Form = &seedbed.HookForm{SignatureHeader: "x-sig"}
		}
		for _, text := range []string{"", "short", "whsec_", "whpk_", strings.Repeat("x", 1025), "0123456789abcde\n0123456789"} {
			if key, err := ParseKey(h, text); !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("%s: %q is the key %q (%v)", scheme, text, key, err)
			}
		}
		key, text, err := NewKey(h)
		if err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) {
				t.Errorf("%s: %v", scheme, err)
			}
			continue
		}
		if back, err := ParseKey(h, " "+text+"\n"); err != nil || !bytes.Equal(back, key) {
			t.Errorf("%s: the new key %q is read as %q (%v)", scheme, text, back, err)
		}
	}
}

func keys(secret []byte) []seedbed.HookKey { return []seedbed.HookKey{{ID: "k1", Secret: secret}} }

// of is settings of a scheme.
func of(s seedbed.Scheme) seedbed.HookSettings { return seedbed.HookSettings{Scheme: s} }
