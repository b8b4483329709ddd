package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seedbed"
)

// newToken creates a token and returns its secret.
func (s *server) newToken(t *testing.T, name string, role seedbed.Role) string {
	t.Helper()
	return s.newTokenIn(t, seedbed.DefaultProject, name, role)
}

// newTokenIn creates a token of a project, and returns its secret.
func (s *server) newTokenIn(t *testing.T, project, name string, role seedbed.Role) string {
	t.Helper()
	r := s.do(t, "POST", "/api/v1/tokens", fmt.Sprintf(`{"name":%q,"role":%q}`, name, role), "Seedbed-Project", project)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != 201 || !strings.HasPrefix(made.Secret, "sbt_") {
		t.Fatalf("%d %s %v", r.status, r.body, err)
	}
	return made.Secret
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := start(t)
	secret := s.newToken(t, "ci", seedbed.RoleOperator)
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"again":         {`{"name":"ci","role":"viewer"}`, 409},
		"configured":    {`{"name":"admin","role":"admin"}`, 409},
		"no role":       {`{"name":"x"}`, 422},
		"unknown role":  {`{"name":"x","role":"root"}`, 422},
		"bad name":      {`{"name":"a/b","role":"admin"}`, 422},
		"in the past":   {`{"name":"x","role":"admin","expires":"2001-01-01T00:00:00Z"}`, 422},
		"not a time":    {`{"name":"x","role":"admin","expires":"soon"}`, 400},
		"own secret":    {`{"name":"x","role":"admin","secret":"sbt_1"}`, 400},
		"not an object": {`[]`, 400},
	} {
		if r := s.do(t, "POST", "/api/v1/tokens", test.body); r.status != test.status {
			t.Errorf("%s: %d %s, want %d", name, r.status, r.body, test.status)
		}
	}
	as := []string{"Authorization", "Bearer " + secret}
	if r := s.do(t, "GET", "/api/v1/jobs", "", as...); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.do(t, "GET", "/api/v1/tokens", ""); !strings.Contains(r.body, `"used"`) || strings.Contains(r.body, secret) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.do(t, "DELETE", "/api/v1/tokens/ci", ""); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.do(t, "GET", "/api/v1/jobs", "", as...); r.status != 401 {
		t.Errorf("revoked: %d %s", r.status, r.body)
	}
	if r := s.do(t, "DELETE", "/api/v1/tokens/ci", ""); r.status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if log := s.log.String(); strings.Contains(log, secret) {
		t.Errorf("the log has the secret: %s", log)
	}
}

func TestExpiredToken(t *testing.T) {
	t.Parallel()
	s := start(t)
	var made struct{ Secret string }
	for lasts := 300 * time.Millisecond; ; lasts *= 4 { // on a busy computer it may be over before it is made
		r := s.do(t, "POST", "/api/v1/tokens",
			fmt.Sprintf(`{"name":"brief","role":"admin","expires":%q}`, time.Now().Add(lasts).Format(time.RFC3339Nano)))
		if r.status == 201 && json.Unmarshal([]byte(r.body), &made) == nil {
			break
		}
		if lasts > time.Minute {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if r := s.do(t, "GET", "/api/v1/jobs", "", "Authorization", "Bearer "+made.Secret); r.status == 401 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the token does not end")
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	s := start(t)
	secrets := map[seedbed.Role]string{}
	for _, role := range []seedbed.Role{seedbed.RoleViewer, seedbed.RoleOperator, seedbed.RoleAdmin} {
		secrets[role] = s.newToken(t, "a-"+string(role), role)
	}
	for _, test := range []struct {
		method, path, body string
		need               seedbed.Role
	}{
		{"GET", "/api/v1/instances", "", seedbed.RoleViewer},
		{"HEAD", "/api/v1/jobs", "", seedbed.RoleViewer},
		{"GET", "/api/v1/hooks", "", seedbed.RoleViewer},
		{"GET", "/api/v1/instances/web1/access", "", seedbed.RoleViewer},
		{"GET", "/api/v1/instances/web1/metadata", "", seedbed.RoleOperator},
		{"GET", "/api/v1/instances/web1/console", "", seedbed.RoleOperator},
		{"GET", "/api/v1/jobs/00000000/output", "", seedbed.RoleOperator},
		{"POST", "/api/v1/instances", "{}", seedbed.RoleOperator},
		{"DELETE", "/api/v1/instances/web1", "", seedbed.RoleOperator},
		{"POST", "/api/v1/images", "{}", seedbed.RoleOperator},
		{"DELETE", "/api/v1/profiles/web", "", seedbed.RoleOperator},
		{"POST", "/api/v1/jobs/00000000/cancel", "", seedbed.RoleOperator},
		{"POST", "/api/v1/hooks", "{}", seedbed.RoleAdmin},
		{"DELETE", "/api/v1/endpoints/x", "", seedbed.RoleAdmin},
		{"PATCH", "/api/v1/networks/default", "{}", seedbed.RoleAdmin},
		{"POST", "/api/v1/nodes/host1/maintenance", "{}", seedbed.RoleAdmin},
		{"POST", "/api/v1/cleanup", "no JSON", seedbed.RoleAdmin},
		{"GET", "/api/v1/tokens", "", seedbed.RoleAdmin},
		{"POST", "/api/v1/tokens", "{}", seedbed.RoleAdmin},
		{"GET", "/api/v1/audit", "", seedbed.RoleAdmin},
		{"GET", "/api/v1/provisioner/script/x/options", "", seedbed.RoleOperator},
		{"PUT", "/api/v1/provisioner/script/x/options?network=true&privileged=false", "", seedbed.RoleOperator},
		{"PUT", "/api/v1/provisioner/script/x/options?privileged=true", "", seedbed.RoleAdmin},
		{"POST", "/api/v1/catalogue", `{"scripts":[{"name":"y","text":"x","options":{"network":true}}]}`, seedbed.RoleOperator},
		{"POST", "/api/v1/catalogue", `{"scripts":[{"name":"y","text":"x","options":{"privileged":true}}]}`, seedbed.RoleAdmin},
	} {
		for role, secret := range secrets {
			r := s.do(t, test.method, test.path, test.body, "Authorization", "Bearer "+secret)
			if got, want := r.status == 403, slices.Index(seedbed.Roles(), role) < slices.Index(seedbed.Roles(), test.need); got != want {
				t.Errorf("%s %s as %s: %d %s, want refused %t", test.method, test.path, role, r.status, r.body, want)
			}
		}
	}
	// If two tokens are sent, the one with the lesser role counts.
	if r := s.do(t, "GET", "/api/v1/tokens", "", "X-Api-Key", secrets[seedbed.RoleViewer]); r.status != 403 {
		t.Errorf("admin and viewer: %d", r.status)
	}
}

func TestGuessesAreSlowed(t *testing.T) {
	t.Parallel()
	s := start(t)
	var mu sync.Mutex
	seen := map[int]int{}
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/api/v1/jobs", nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Api-Key", "guess")
			res, err := s.client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			seen[res.StatusCode]++
		})
	}
	all.Wait()
	if seen[401]+seen[429] != 60 || seen[429] == 0 || seen[401] < 20 {
		t.Errorf("answers %v, want 401 and, of too many at once, 429", seen)
	}
	if r := s.do(t, "GET", "/api/v1/jobs", ""); r.status != 200 {
		t.Errorf("the right token: %d %s", r.status, r.body)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	secret := s.newToken(t, "ci", seedbed.RoleOperator)
	as := []string{"Authorization", "Bearer " + secret}
	const document = "I2Nsb3VkLWNvbmZpZwo="
	profile := `{"name":"web","image":"debian","vcpus":1,"memory":"1GiB","user_data":"` + document + `"}`
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/api/v1/profiles", profile, 201},
		{"POST", "/api/v1/profiles", profile, 409}, // nothing changed
		{"POST", "/api/v1/instances", `{"name":"web1","profile":"web"}`, 202},
		{"DELETE", "/api/v1/profiles/web", "", 204},
	} {
		if r := s.do(t, step.method, step.path, step.body, as...); r.status != step.status {
			t.Fatalf("%s %s: %d %s", step.method, step.path, r.status, r.body)
		}
	}
	r := s.do(t, "GET", "/api/v1/audit?limit=3", "")
	var entries []seedbed.AuditEntry
	if err := json.Unmarshal([]byte(r.body), &entries); err != nil || len(entries) != 3 {
		t.Fatalf("%d %s %v", r.status, r.body, err)
	}
	for i, want := range []struct{ request, what, before, asked string }{
		{"DELETE /api/v1/profiles/web", "delete profile web", `"image":"debian"`, ""},
		{"POST /api/v1/instances", "accept create", "", `"name":"web1"`},
		{"POST /api/v1/profiles", "create profile web", "", `"memory":"1GiB"`},
	} {
		e := entries[i]
		if e.Request != want.request || e.What != want.what || e.Actor != "token ci" || e.Role != seedbed.RoleOperator || e.From != "127.0.0.1" {
			t.Errorf("entry %+v", e)
		}
		if !strings.Contains(string(e.Before), want.before) || !strings.Contains(string(e.Asked), want.asked) ||
			(want.before == "") != (e.Before == nil) {
			t.Errorf("%s: before %s, asked %s", e.What, e.Before, e.Asked)
		}
	}
	if strings.Contains(r.body, document) {
		t.Errorf("a document is in the audit log: %s", r.body)
	}
	if r := s.do(t, "DELETE", "/api/v1/tokens/ci", ""); r.status != 204 {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/audit?limit=1", ""); !strings.Contains(r.body, `"before":{`) ||
		!strings.Contains(r.body, `"role":"operator"`) {
		t.Errorf("a revoked token is not in the audit log as it was: %s", r.body)
	}
	r = s.do(t, "GET", fmt.Sprintf("/api/v1/audit?before=%d&limit=1", entries[2].ID), "")
	if err := json.Unmarshal([]byte(r.body), &entries); err != nil || len(entries) != 1 || entries[0].What != "create token ci" ||
		entries[0].Actor != "token admin" {
		t.Errorf("%d %s %v", r.status, r.body, err)
	}
	if strings.Contains(r.body, secret) {
		t.Errorf("a secret is in the audit log: %s", r.body)
	}
	if r := s.do(t, "GET", "/api/v1/audit?before=x", ""); r.status != 422 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestAuditWithholdsDocuments checks that the log has no document of a request, in any of the forms
// that params may have it in.
func TestAuditWithholdsDocuments(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.importImage(t, "debian")
	s.do(t, "POST", "/api/v1/profiles", `{"name":"small","image":"debian","vcpus":1,"memory":"512MiB"}`)
	text := "#cloud-config\n# hush\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	for k, params := range []string{
		fmt.Sprintf(`{"user_data":%q,"vendor_data":%q}`, text, text),
		fmt.Sprintf(`{"user_data_base64":%q,"vendor_data_base64":%q}`, encoded, encoded),
	} {
		if r := s.do(t, "POST", "/api/v1/instances", fmt.Sprintf(`{"name":"web%d","profile":"small","params":%s}`, k, params)); r.status != 202 {
			t.Fatalf("%+v", r)
		}
		r := s.do(t, "GET", "/api/v1/audit?limit=1", "")
		if strings.Contains(r.body, "hush") || strings.Contains(r.body, encoded) || strings.Count(r.body, " bytes)") != 2 {
			t.Errorf("%s: the audit log has %s", params, r.body)
		}
	}
}
