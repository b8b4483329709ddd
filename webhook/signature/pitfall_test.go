package signature

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// These are the pitfalls of a receiver that are about proofs alone; package webhook has tests of
// the others.

// 3: a MAC is compared at its full length in constant time, with all keys.
func TestPitfall03WholeMACAllKeys(t *testing.T) {
	t.Parallel()
	h := seedbed.Hook{HookSettings: of(seedbed.SchemeStandard)}
	for k := range 5 {
		h.Keys = append(h.Keys, seedbed.HookKey{ID: fmt.Sprint("k", k), Secret: bytes.Repeat([]byte{byte(k + 1)}, 32)})
	}
	for k := range h.Keys {
		f := standardFields("m", vectorTimestamp, Sign(h.Keys[k].Secret, "m", vectorTime, []byte("{}")))
		if err := verifyHeaders(h, f, "{}", vectorTime); err != nil {
			t.Errorf("key %d: %v", k, err)
		}
	}
	for _, part := range []string{"v1,", "v1,AA==", vectorSignature[:20] + "=="} {
		if err := verifyHeaders(h, standardFields("m", vectorTimestamp, part), "{}", vectorTime); err == nil {
			t.Errorf("%s is accepted", part)
		}
	}
}

// 4: a key that is empty or short is refused when it is loaded, and never verifies.
func TestPitfall04EmptyKey(t *testing.T) {
	t.Parallel()
	for _, scheme := range seedbed.Schemes() {
		h := seedbed.Hook{HookSettings: of(scheme), Keys: keys(nil)}
		if scheme == seedbed.SchemeGeneric {
			h.Form = &seedbed.HookForm{SignatureHeader: "x-sig"}
		}
		if _, err := ParseKey(h.HookSettings, ""); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%s: an empty secret is read: %v", scheme, err)
		}
		s, err := Of(h.HookSettings)
		if err != nil {
			t.Fatal(err)
		}
		forged := Claim{at: vectorTime, lead: "m.1.", proofs: [][]byte{sha256MAC(nil, "m.1.", []byte("{}")), sha256MAC(nil, "",
			[]byte("{}")), digest("")}}
		if Verify(h, s, forged, []byte("{}"), vectorTime) == nil {
			t.Errorf("%s: a forgery with the empty key is accepted", scheme)
		}
	}
}

// 5: no dot moves between id, timestamp and body.
func TestPitfall05DotShift(t *testing.T) {
	t.Parallel()
	key := vectorKey(t)
	h := hookOf(seedbed.SchemeStandard, key)
	mac := Sign(key, "msg", vectorTime, []byte(vectorTimestamp+".{}"))
	if err := verifyHeaders(h, standardFields("msg."+vectorTimestamp, vectorTimestamp, mac), "{}", vectorTime); err == nil {
		t.Error("a dot moved into the id")
	}
	for _, s := range senders(t) {
		if g, err := Of(s.hook.HookSettings); err == nil {
			if g, ok := g.(*generic); ok {
				f := fieldsOf(map[string]string{"x-sig": "v2=AA==", "x-time": "1", "x-event": "a.b"})
				if _, err := g.Read(f); err == nil {
					t.Error("a generic id holds a dot")
				}
			}
		}
	}
}

// 7: the hook's scheme is the only one: nothing signed by another's rules passes.
func TestPitfall07SchemeIsPinned(t *testing.T) {
	t.Parallel()
	all := senders(t)
	now := time.Unix(1_700_000_000, 0)
	same := []seedbed.Scheme{seedbed.SchemeStandard, seedbed.SchemeGitLabSigned} // one wire, by design
	for as, s := range all {
		headers, err := Headers(s.hook.HookSettings, s.secret, "evt_1", now, []byte(vectorBody))
		if err != nil {
			t.Fatal(err)
		}
		for scheme, other := range all {
			if scheme == as || slices.Contains(same, scheme) && slices.Contains(same, as) {
				continue
			}
			if err := verifyHeaders(withKey(other.hook, s.hook.Keys[0].Secret), fieldsOf(headers), vectorBody, now); err == nil {
				t.Errorf("a %s hook accepts %s", scheme, as)
			}
		}
	}
	github := fieldsOf(map[string]string{"x-hub-signature": "sha1=" + strings.Repeat("0", 40), "x-github-delivery": "a"})
	if err := verifyHeaders(all[seedbed.SchemeGitHub].hook, github, "", now); err == nil || !strings.Contains(err.Error(), "SHA-1") {
		t.Errorf("SHA-1: %v", err)
	}
}

// 8: base64 is the standard alphabet with its padding, and hexadecimal is lower case.
func TestPitfall08StrictEncodings(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"AA", "AA=", "A-__", " AA==", "AA==\n", "AB==", "AA==AA=="} {
		if b, err := decodeBase64(s); err == nil {
			t.Errorf("%q is %x", s, b)
		}
	}
	for _, s := range []string{"AB", "ab ", "0xab", "abc", ""} {
		if b, err := decodeHex(s, 1); err == nil {
			t.Errorf("%q is %x", s, b)
		}
	}
}

// 9: timestamps neither overflow, nor are negative or milliseconds.
func TestPitfall09Timestamps(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "-1", "+1", "1.0", "1e9", "1614265330000", "99999999999999999999", "0x10", " 1", "१"} {
		if at, err := parseTime("t", text); err == nil {
			t.Errorf("%q is %s", text, at)
		}
	}
	for _, scheme := range []seedbed.Scheme{seedbed.SchemeStandard, seedbed.SchemeStripe, seedbed.SchemeSlack, seedbed.SchemeGeneric} {
		s := senders(t)[scheme]
		for _, at := range []time.Time{time.Unix(0, 0), time.Unix(999999999999, 0)} {
			headers, err := Headers(s.hook.HookSettings, s.secret, "m", at, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := verifyHeaders(s.hook, fieldsOf(headers), "", vectorTime); err == nil {
				t.Errorf("%s: %s is accepted", scheme, at)
			}
		}
	}
}

// 10: a time in the future is as wrong as one in the past.
func TestPitfall10FutureSkew(t *testing.T) {
	t.Parallel()
	h := hookOf(seedbed.SchemeStandard, vectorKey(t))
	f := standardFields(vectorID, vectorTimestamp, vectorSignature)
	for off, ok := range map[time.Duration]bool{-DefaultTolerance: true, -DefaultTolerance - time.Second: false} {
		if err := verifyHeaders(h, f, vectorBody, vectorTime.Add(off)); (err == nil) != ok {
			t.Errorf("%s early: %v", -off, err)
		}
	}
}
