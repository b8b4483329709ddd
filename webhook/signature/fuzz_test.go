package signature

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/header"
)

// fuzzScheme feeds one scheme headers and bodies. Nothing is to be accepted that was not signed,
// nor claimed that the store could not keep.
func fuzzScheme(f *testing.F, scheme seedbed.Scheme) {
	fuzzHook(f, senders(f)[scheme])
}

func fuzzHook(f *testing.F, s sender) {
	scheme := s.hook.Scheme
	now := time.Unix(1_700_000_000, 0)
	good, err := Headers(s.hook.HookSettings, s.secret, "evt_1", now, []byte(vectorBody))
	if err != nil {
		f.Fatal(err)
	}
	var lines []string
	for name, value := range good {
		lines = append(lines, name+": "+value)
	}
	f.Add([]byte(strings.Join(lines, "\r\n")+"\r\n\r\n"), []byte(vectorBody))
	f.Add([]byte("webhook-id: a\r\n\r\n"), []byte(`{"version":"4","groupKey":"g","alerts":[{}]}`))
	known, err := Of(s.hook.HookSettings)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw, body []byte) {
		fields, err := header.Parse(raw, Deciding...)
		if err != nil {
			return
		}
		c, err := known.Read(fields)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if len(c.proofs) > maxSignatures || c.id != "" && !validID(c.id) {
			t.Errorf("accepted %d proofs under %q", len(c.proofs), c.id)
		}
		if id, err := known.Identify(c, body); err == nil && (id == "" || len(id) > 128) {
			t.Errorf("identified as %q", id)
		}
		if Verify(s.hook, known, c, body, now) != nil || scheme == seedbed.SchemeNone {
			return
		}
		if bearer := scheme == seedbed.SchemeGitLab || scheme == seedbed.SchemeAlertmanager; !bearer && string(body) != vectorBody {
			t.Errorf("accepted the body %q", body)
		}
	})
}

func FuzzStandard(f *testing.F)     { fuzzScheme(f, seedbed.SchemeStandard) }
func FuzzStandardV1a(f *testing.F)  { fuzzScheme(f, seedbed.SchemeStandardV1a) }
func FuzzGitHub(f *testing.F)       { fuzzScheme(f, seedbed.SchemeGitHub) }
func FuzzGitLab(f *testing.F)       { fuzzScheme(f, seedbed.SchemeGitLab) }
func FuzzGitLabSigned(f *testing.F) { fuzzScheme(f, seedbed.SchemeGitLabSigned) }
func FuzzStripe(f *testing.F)       { fuzzScheme(f, seedbed.SchemeStripe) }
func FuzzSlack(f *testing.F)        { fuzzScheme(f, seedbed.SchemeSlack) }
func FuzzGeneric(f *testing.F)      { fuzzScheme(f, seedbed.SchemeGeneric) }
func FuzzAlertmanager(f *testing.F) { fuzzScheme(f, seedbed.SchemeAlertmanager) }

func FuzzNone(f *testing.F) {
	fuzzHook(f, sender{hook: seedbed.Hook{Name: "none", HookSettings: seedbed.HookSettings{Scheme: seedbed.SchemeNone, Insecure: true}}})
}

// FuzzGenericDefault is FuzzGeneric with a form that says the least.
func FuzzGenericDefault(f *testing.F) {
	s := senders(f)[seedbed.SchemeGeneric]
	s.hook.Form = &seedbed.HookForm{SignatureHeader: "X-Sig"}
	fuzzHook(f, s)
}

// FuzzForm feeds the reader of forms. What one that is taken signs is accepted, and nothing that
// says another time, name or body is.
func FuzzForm(f *testing.F) {
	f.Add("X-Sig", "X-Time", "X-Event", "{timestamp}:{id}.{body}", "v2=", ",", "sha512", "base64")
	f.Add("x-sig", "", "", "", "", "", "", "")
	f.Add("x-sig", "x-time", "", "v0:{timestamp}:{body}", "v0=", "", "sha256", "hex")
	f.Add("x-sig", "x-time", "x-id", "{id}{timestamp}.{body}", "", " ", "", "")
	key := []byte("a secret of some length")
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, sig, at, id, signed, prefix, separator, algorithm, encoding string) {
		h := hookOf(seedbed.SchemeGeneric, key)
		h.Form = &seedbed.HookForm{SignatureHeader: sig, TimestampHeader: at, IDHeader: id, Signed: signed, Prefix: prefix,
			Separator: separator, Algorithm: algorithm, Encoding: encoding}
		if _, err := Of(h.HookSettings); err != nil {
			if !errors.Is(err, seedbed.ErrInvalid) || len(err.Error()) > 400 {
				t.Errorf("%d bytes: %v", len(err.Error()), err)
			}
			return
		}
		names := map[string]bool{strings.ToLower(sig): true, strings.ToLower(at): true, strings.ToLower(id): true}
		if len(names) < 3 && (at != "" || id != "") { // one header for two things: nobody can send that
			return
		}
		headers, err := Headers(h.HookSettings, string(key), "evt_1", now, []byte(vectorBody))
		if err != nil {
			t.Fatal(err)
		}
		fields := fieldsOf(headers)
		if verifyHeaders(h, fields, vectorBody, now) != nil { // such as a separator that is part of a signature
			return
		}
		if verifyHeaders(h, fields, vectorBody+" ", now) == nil {
			t.Error("another body is accepted")
		}
		if at == "" {
			return
		}
		fields[strings.ToLower(at)] = []string{"1700000001"}
		if verifyHeaders(h, fields, vectorBody, now) == nil {
			t.Error("another time is accepted")
		}
	})
}
