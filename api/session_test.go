package api_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"seedbed"
)

// login begins a session, and returns its cookie as a client sends it back.
func (s *server) login(t *testing.T, path, secret string) string {
	t.Helper()
	r := s.do(t, "POST", "/api/v1"+path, "token="+secret, "Content-Type", formType, "Authorization", "")
	if r.status != 200 || r.body != msg("Authentication successful") {
		t.Fatalf("%+v", r)
	}
	cookie, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
	if err != nil || cookie.Name != "session" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Expires.IsZero() {
		t.Fatalf("cookie %q, %v", r.header.Get("Set-Cookie"), err)
	}
	if strings.Contains(cookie.Value, secret) {
		t.Error("the cookie holds the token")
	}
	return cookie.Name + "=" + cookie.Value
}

func TestSession(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	secret := s.newToken(t, "ops", seedbed.RoleOperator)
	for _, path := range []string{"/login", "/auth/login"} {
		cookie := s.login(t, path, secret)
		with := func(method, path string, more ...string) response {
			return s.do(t, method, "/api/v1"+path, "", append([]string{"Authorization", "", "Cookie", cookie}, more...)...)
		}
		if r := with("GET", "/provisioner/template"); r.status != 200 {
			t.Errorf("%+v", r)
		}
		if r := with("GET", "/instances"); r.status != 200 {
			t.Errorf("%+v", r)
		}
		if r := with("GET", "/tokens"); r.status != 403 {
			t.Errorf("an operator's session reads tokens: %+v", r)
		}
		if r := with("GET", "/provisioner/template", "X-Api-Key", "wrong"); r.status != 401 || r.body != msg("X-Api-Key Authentication failed.") {
			t.Errorf("a wrong token beside a session: %+v", r)
		}
		if r := s.do(t, "GET", "/api/v1/provisioner/template", "", "Authorization", "", "Cookie",
			cookie[:len(cookie)-4]+"AAAA"); r.status != 401 || r.body != msg("X-Api-Key Authentication required.") {
			t.Errorf("a forged session: %+v", r)
		}
		r := with("POST", strings.Replace(path, "login", "logout", 1))
		if r.status != 200 || r.body != msg("Deauthentication successful") || !strings.Contains(r.header.Get("Set-Cookie"), "session=;") {
			t.Errorf("%+v", r)
		}
	}
	cookie := s.login(t, "/login", secret)
	if r := s.do(t, "DELETE", "/api/v1/tokens/ops", ""); r.status != 204 {
		t.Fatalf("%+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/provisioner/template", "", "Authorization", "", "Cookie", cookie); r.status != 401 {
		t.Errorf("a revoked token's session: %+v", r)
	}
}

// TestSessionOfAnotherPage checks that a page of another origin, such as one at another port of the
// same host, changes nothing with the cookie that the browser sends for it.
func TestSessionOfAnotherPage(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	secret := s.newToken(t, "ops", seedbed.RoleOperator)
	cookie := s.login(t, "/login", secret)
	own, other := s.url, "http://127.0.0.1:1"
	for name, test := range map[string]struct {
		method string
		header []string
		status int
	}{
		"no browser":                {"DELETE", nil, 404},
		"its own page":              {"DELETE", []string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, 404},
		"its own, behind a proxy":   {"DELETE", []string{"Origin", "https://seedbed.example", "Sec-Fetch-Site", "same-origin"}, 404},
		"another port":              {"DELETE", []string{"Origin", other, "Sec-Fetch-Site", "same-site"}, 403},
		"another site":              {"DELETE", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		"its own, older browser":    {"DELETE", []string{"Origin", own}, 404},
		"another, older browser":    {"DELETE", []string{"Origin", other}, 403},
		"a file":                    {"DELETE", []string{"Origin", "null"}, 403},
		"reads":                     {"GET", []string{"Origin", other, "Sec-Fetch-Site", "same-site"}, 404},
		"another, but with a token": {"DELETE", []string{"Origin", other, "Sec-Fetch-Site", "same-site", "X-Api-Key", secret}, 404},
	} {
		header := append([]string{"Authorization", "", "Cookie", cookie}, test.header...)
		if r := s.do(t, test.method, "/api/v1/profiles/none", "", header...); r.status != test.status {
			t.Errorf("%s: %d %s, want %d", name, r.status, r.body, test.status)
		}
	}
}

func TestLoginRefused(t *testing.T) {
	t.Parallel()
	s := provisioner(t)
	for name, c := range map[string]struct {
		query, form string
		status      int
		body        string
	}{
		"no token": {"", "", 400, lacks("token", "The token to authenticate with must be specified, in the form.")},
		"only in the query": {"?token=" + strings.ReplaceAll(token, " ", "+"), "", 400, lacks("token",
			"The token to authenticate with must be specified, in the form.")},
		"an empty one":         {"", "token=", 401, msg("Authentication failed")},
		"a part of a true one": {"", "token=correct", 401, msg("Authentication failed")},
		"a wrong one":          {"", "token=sbt_00", 401, msg("Authentication failed")},
	} {
		r := s.do(t, "POST", "/api/v1/login"+c.query, c.form, "Content-Type", formType, "Authorization", "")
		if r.status != c.status || r.body != c.body || r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %+v, want %d %s", name, r, c.status, c.body)
		}
	}
}

// TestLoginOnSocket checks that the control socket has no sessions.
func TestLoginOnSocket(t *testing.T) {
	t.Parallel()
	s := start(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"/login", "/logout", "/auth/login", "/auth/logout"} {
		r := s.do(t, "POST", "/api/v1"+path, "", "Authorization", "")
		if r.status != 302 || r.header.Get("Location") != "/api/v1/" || r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

// TestPVCAccess checks that the caller is authenticated before the request is read, and that paths
// without a token reveal nothing.
func TestPVCAccess(t *testing.T) {
	t.Parallel()
	s := composable(t)
	viewer := "Bearer " + s.newToken(t, "eyes", seedbed.RoleViewer)
	for _, c := range []struct {
		method, path, auth string
		status             int
		body               string
	}{
		{"GET", "/", "", 200, msg("PVC API version 1.0")},
		{"GET", "", "", 200, msg("PVC API version 1.0")},
		{"GET", "/status/primary_node", "", 200, `{"primary_node":"host1"}`},
		{"POST", "/provisioner/template/system", "", 401, msg("X-Api-Key Authentication required.")},
		{"GET", "/provisioner/nothing", "", 401, msg("X-Api-Key Authentication required.")},
		{"GET", "/status", "", 401, msg("X-Api-Key Authentication required.")},
		{"GET", "/tasks/01234567", "Bearer wrong", 401, msg("X-Api-Key Authentication failed.")},
		{"POST", "/provisioner/template/system", viewer, 403,
			msg("Token eyes has the role viewer in project default, which does not have template.manage.")},
		{"GET", "/provisioner/userdata", viewer, 403,
			msg("Token eyes has the role viewer in project default, which does not have userdata.read.")},
		{"GET", "/provisioner/script/empty", viewer, 403,
			msg("Token eyes has the role viewer in project default, which does not have script.read.")},
		{"PATCH", "/provisioner/profile", "Bearer " + token, 405,
			msg("The method is not allowed for the requested URL. Seedbed's methods are described at /api/v1/openapi.yaml.")},
		{
			"GET", "/provisioner/", "Bearer " + token, 404,
			msg("The requested URL was not found on the server. Seedbed's paths are described at /api/v1/openapi.yaml."),
		},
		{"POST", "/status", "Bearer " + token, 400, lacks("state", "A valid state must be specified.")},
		{"POST", "/status?state=maybe", "Bearer " + token, 400, lacks("state", "A valid state must be specified.")},
		{"POST", "/status?state=false", "Bearer " + token, 200, msg("Cluster is already in normal mode")},
		{"POST", "/status?state=True", "Bearer " + token, 200, msg("Successfully set cluster in maintenance mode")},
	} {
		r := s.do(t, c.method, "/api/v1"+c.path, "", "Authorization", c.auth)
		if r.status != c.status || r.body != c.body {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, r.status, r.body, c.status, c.body)
		}
	}
	if r := s.do(t, "GET", "/api/v1/provisioner/profile", "", "Authorization", viewer); r.status != 200 {
		t.Errorf("%+v", r)
	}
	if r := s.do(t, "GET", "/api/v1/status", ""); r.status != 200 || !strings.Contains(r.body, `"maintenance":"true"`) ||
		!strings.Contains(r.body, `"cluster_health":{"health":50,"messages":[{"id":"PORT_80","health_delta":50,"text":"port 80: nginx"}]}`) ||
		!strings.Contains(r.body, `"networks":2`) || !strings.Contains(r.body, `"vms":{"total":0}`) {
		t.Errorf("%+v", r)
	}
}

// TestPVCAudit checks that the audit log names the caller and the change, and holds no content that
// may be secret.
func TestPVCAudit(t *testing.T) {
	t.Parallel()
	s := composable(t)
	for _, c := range []call{
		{"POST", "/provisioner/userdata/keys", "data=%23!hunter2", 200, msg(`Created userdata document "keys".`)},
		{"PUT", "/provisioner/userdata/keys", "data=%23!hunter3", 200, msg(`Updated userdata document "keys".`)},
		{"PUT", "/provisioner/profile/web", "arg=password%3Dhunter4&script=empty", 200, msg(`Modified VM profile "web".`)},
		{"PUT", "/provisioner/profile/web", "arg=", 200, msg(`Modified VM profile "web".`)},
		{"DELETE", "/provisioner/userdata/keys", "", 200, msg(`Removed userdata document "keys".`)},
	} {
		s.pvc(t, c)
	}
	r := s.do(t, "GET", "/api/v1/audit?limit=5", "")
	for _, want := range []string{`"what":"delete userdata document keys"`, `"before":{"bytes":9,"id":2,"name":"keys"}`,
		`"data":"(9 bytes)"`, `"script":["empty"]`, `"request":"PUT /api/v1/provisioner/profile/web"`, `"actor":"token admin"`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	if strings.Contains(r.body, "hunter") {
		t.Errorf("a secret is in the log: %s", r.body)
	}
}
