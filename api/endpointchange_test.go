package api_test

import (
	"strings"
	"testing"
)

// TestEndpointChange changes an endpoint, and its signatures. Each answer is compared with the
// description.
func TestEndpointChange(t *testing.T) {
	t.Parallel()
	s := start(t)
	expect := func(method, path, body string, status int, parts ...string) string {
		t.Helper()
		r := s.do(t, method, "/api/v1/endpoints"+path, body)
		if r.status != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, status)
		}
		for _, part := range parts {
			if !strings.Contains(r.body, part) {
				t.Errorf("%s %s: %s\ndoes not hold %s", method, path, r.body, part)
			}
		}
		return r.body
	}
	expect("POST", "", `{"name":"ci","url":"https://x.example","events":["job.*"]}`, 201, `"version":"v1"`)
	expect("PATCH", "/ci", `{"url":"https://y.example/hook","events":["node.*","job.failed"]}`,
		200, `"url":"https://y.example/hook"`, `"events":["node.*","job.failed"]`, `"enabled":true`)
	expect("PATCH", "/ci", `{"url":"http://y.example/hook"}`, 422, "plain http")
	expect("PATCH", "/ci", `{"url":"http://10.0.0.1/hook","allow_private":true,"enabled":false}`,
		200, `"allow_private":true`, `"enabled":false`)
	expect("PATCH", "/ci", `{"events":[]}`, 422, "events")
	expect("PATCH", "/ci", `{}`, 422, "nothing to change")
	expect("PATCH", "/ci", `{"cloudevents":true}`, 400, "unknown")
	expect("PATCH", "/none", `{"enabled":true}`, 404)

	const private, public = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
	drawn := expect("POST", "", `{"name":"pair","url":"https://x.example","events":["*"],"sign":["v1a"]}`,
		201, `"version":"v1a"`, `"public_key":"whpk_`)
	if strings.Contains(drawn, "secret") || strings.Contains(drawn, "whsk_") {
		t.Errorf("a private key is told: %s", drawn)
	}
	both := expect("POST", "/pair/rotate", `{"sign":["v1","v1a"],"secret":"`+private+`"}`, 200, public, `"secret":"whsec_BwcH"`, `"expires"`)
	if strings.Contains(both, private) {
		t.Errorf("a private key is told: %s", both)
	}
	if got := expect("POST", "/pair/rotate", `{"overlap":0}`, 200, `"version":"v1"`, `"version":"v1a"`); strings.Contains(got, public) {
		t.Errorf("the key before it is there: %s", got)
	}
	for _, bad := range []string{
		`{"name":"x","url":"https://x.example","events":["*"],"sign":["v2"]}`,
		`{"name":"x","url":"https://x.example","events":["*"],"sign":["v1","v1"]}`,
		`{"name":"x","url":"https://x.example","events":["*"],"sign":["v1a"],"secret":"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}`,
		`{"name":"x","url":"https://x.example","events":["*"],"sign":["v1"],"secret":"` + private + `"}`,
	} {
		if got := expect("POST", "", bad, 422); strings.Contains(got, "AAECAwQF") {
			t.Errorf("a key is told: %s", got)
		}
	}
	if r := s.do(t, "GET", "/api/v1/audit?limit=50", ""); strings.Contains(r.body, "AAECAwQF") ||
		!strings.Contains(r.body, `"what":"rotate key of endpoint"`) {
		t.Errorf("the audit log has %s", r.body)
	}
}
