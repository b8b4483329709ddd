package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seedbed"
)

// TestHookKeys covers a hook's named keys and their validity. Each answer is compared with the
// description.
func TestHookKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	expect := func(method, path, body string, status int, parts ...string) string {
		t.Helper()
		r := s.do(t, method, "/api/v1"+path, body)
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
	const secret = "a secret of some length"
	from := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	at := func(d time.Duration) string { return from.Add(d).Format(time.RFC3339) }
	expect("POST", "/hooks",
		fmt.Sprintf(`{"name":"forge","scheme":"github","key_id":"first","not_after":%q,"secret":%q}`, at(48*time.Hour), secret), 201,
		`"id":"first"`, fmt.Sprintf(`"not_after":%q`, at(48*time.Hour)))
	for what, body := range map[string]string{
		"not_after":     `{"name":"bad","not_after":"2020-01-01T00:00:00Z"}`,
		"after not_bef": fmt.Sprintf(`{"name":"bad","not_before":%q,"not_after":%q}`, at(time.Hour), at(0)),
		"key name":      `{"name":"bad","key_id":"../x"}`,
	} {
		expect("POST", "/hooks", body, 422, what)
	}
	expect("POST", "/hooks", `{"name":"bad","key":"x"}`, 400, "unknown")
	expect("PATCH", "/hooks/forge", `{"key_id":"second"}`, 422, "rotated")
	// The previous key is valid until the new one has been valid for an hour, but no longer than
	// before.
	expect("POST", "/hooks/forge/rotate",
		fmt.Sprintf(`{"secret":"another secret of some length","key_id":"second","not_before":%q,"overlap":3600000000000}`, at(0)), 200,
		fmt.Sprintf(`{"id":"first","not_after":%q}`, at(time.Hour)), fmt.Sprintf(`{"id":"second","not_before":%q}`, at(0)))
	expect("POST", "/hooks/forge/rotate", `{"secret":"one more secret of some length","key_id":"second","overlap":172800000000000}`,
		422, "two keys")

	expect("DELETE", "/hooks/forge/keys/third", "", 404, "third")
	expect("DELETE", "/hooks/none/keys/first", "", 404)
	req, err := http.NewRequestWithContext(t.Context(), "DELETE", s.url+"/api/v1/hooks/forge/keys/first", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("If-Match", `"older"`)
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("with the tag of an older one: %d", res.StatusCode)
	}
	expect("DELETE", "/hooks/forge/keys/first", "", 204)
	expect("DELETE", "/hooks/forge/keys/second", "", 409, "it is the last key")
	if got := expect("GET", "/hooks/forge", "", 200, `"id":"second"`); strings.Contains(got, "first") {
		t.Errorf("the key is there still: %s", got)
	}
	if got := expect("GET", "/audit?limit=20", "", 200, `"what":"remove key of hook forge"`,
		`"request":"DELETE /api/v1/hooks/forge/keys/first"`, `"key_id":"first"`); strings.Contains(got, secret) {
		t.Errorf("the audit log has the secret: %s", got)
	}
	// A hook whose senders have certificates can be without a key. One that anyone could use
	// cannot.
	declare := func(name string, subjects ...string) {
		h := seedbed.Hook{Name: name, Keys: []seedbed.HookKey{{ID: "k", Secret: []byte(secret)}}}
		h.Scheme, h.Subjects = seedbed.SchemeAlertmanager, subjects
		if _, err := s.db.CreateHook(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	declare("held", "a.example")
	declare("open")
	expect("DELETE", "/hooks/held/keys/k", "", 204)
	expect("DELETE", "/hooks/open/keys/k", "", 409, "subjects")
}

// TestHookThatNobodyReaches checks that a hook whose deliveries the listener would always refuse
// cannot be saved.
func TestHookThatNobodyReaches(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, test := range map[string]struct{ method, path, body, says string }{
		"a larger body":       {"POST", "/hooks", `{"name":"big","max_body":"257KiB"}`, "webhook.max_body"},
		"certificates":        {"POST", "/hooks", `{"name":"held","subjects":["a.example"]}`, "webhook.tls.client_ca"},
		"a larger body later": {"PATCH", "/hooks/ok", `{"max_body":"1MiB"}`, "at most that"},
		"certificates later":  {"PATCH", "/hooks/ok", `{"subjects":["a.example"]}`, "client_ca"},
	} {
		if test.method == "PATCH" {
			s.do(t, "POST", "/api/v1/hooks", `{"name":"ok","max_body":"256KiB"}`)
		}
		if r := s.do(t, test.method, "/api/v1"+test.path, test.body); r.status != 422 || !strings.Contains(r.body, test.says) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
