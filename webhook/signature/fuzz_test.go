package signature

import (
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/internal/httpserve"
)

// fuzzScheme feeds one scheme headers and bodies. Nothing is to be accepted
// that was not signed, nor claimed that the store could not keep.
func fuzzScheme(f *testing.F, scheme seedbed.Scheme) {
	s := senders(f)[scheme]
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
		fields, err := httpserve.ParseFields(raw, Deciding...)
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
		if Verify(s.hook, known, c, body, now) != nil {
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
func FuzzStripe(f *testing.F)       { fuzzScheme(f, seedbed.SchemeStripe) }
func FuzzSlack(f *testing.F)        { fuzzScheme(f, seedbed.SchemeSlack) }
func FuzzGeneric(f *testing.F)      { fuzzScheme(f, seedbed.SchemeGeneric) }
func FuzzAlertmanager(f *testing.F) { fuzzScheme(f, seedbed.SchemeAlertmanager) }
