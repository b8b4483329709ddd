package api_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"seedbed/api"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, test := range map[string]struct {
		header []string
		status int
	}{
		"bearer":               {nil, 200},
		"lower-case scheme":    {[]string{"Authorization", "bearer " + token}, 200},
		"key":                  {[]string{"Authorization", "", "X-Api-Key", token}, 200},
		"both":                 {[]string{"X-Api-Key", token}, 200},
		"nothing":              {[]string{"Authorization", ""}, 401},
		"wrong":                {[]string{"Authorization", "Bearer wrong"}, 401},
		"empty bearer":         {[]string{"Authorization", "Bearer "}, 401},
		"cut off":              {[]string{"Authorization", "Bearer " + token[:5]}, 401},
		"longer":               {[]string{"Authorization", "Bearer " + token + "x"}, 401},
		"basic":                {[]string{"Authorization", "Basic " + token}, 401},
		"no scheme":            {[]string{"Authorization", token}, 401},
		"wrong key":            {[]string{"Authorization", "", "X-Api-Key", "wrong"}, 401},
		"right and wrong":      {[]string{"X-Api-Key", "wrong"}, 401},
		"wrong and right":      {[]string{"Authorization", "Bearer wrong", "X-Api-Key", token}, 401},
		"empty key":            {[]string{"Authorization", "", "X-Api-Key", ""}, 401},
		"as a query parameter": {[]string{"Authorization", ""}, 401},
	} {
		path := "/api/v1/jobs"
		if name == "as a query parameter" {
			path += "?token=" + token[:7] + "&X-Api-Key=" + token[:7]
		}
		r := s.do(t, "GET", path, "", test.header...)
		if r.status != test.status || (r.status == 401) != (r.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d %s, want %d", name, r.status, r.body, test.status)
		}
	}
	if log := s.log.String(); strings.Contains(log, token) || !strings.Contains(log, "wrong token") {
		t.Errorf("the log: %s", log)
	}
}

// TestAuthenticationIsFirst checks that a request without a token learns nothing, not even whether
// a path or an argument is right.
func TestAuthenticationIsFirst(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/api/v1/doctor", ""}, {"GET", "/api/v1/openapi.yaml", ""}, {"GET", "/api/v1/networks", ""}, {"GET", "/api/v1/leases", ""},
		{"GET", "/api/v1/images", ""}, {"POST", "/api/v1/images", "{}"}, {"GET", "/api/v1/images/a", ""},
		{"GET", "/api/v1/profiles", ""}, {"POST", "/api/v1/profiles", "no JSON"},
		{"GET", "/api/v1/profiles/%", ""}, {"DELETE", "/api/v1/profiles/a", ""},
		{"GET", "/api/v1/hooks", ""}, {"POST", "/api/v1/hooks", "{}"}, {"GET", "/api/v1/hooks/a", ""}, {"DELETE", "/api/v1/hooks/a", ""},
		{"GET", "/api/v1/deliveries?limit=x", ""}, {"GET", "/api/v1/instances", ""}, {"POST", "/api/v1/instances", "{}"},
		{"GET", "/api/v1/instances/a", ""}, {"DELETE", "/api/v1/instances/a", ""}, {"GET", "/api/v1/instances/a/console", ""},
		{"GET", "/api/v1/instances/a/access", ""}, {"GET", "/api/v1/instances/a/metadata", ""}, {"GET", "/api/v1/jobs", ""},
		{"GET", "/api/v1/jobs/x", ""}, {"GET", "/api/v1/jobs/x/events", ""},
		{"POST", "/api/v1/jobs/x/cancel", ""}, {"POST", "/api/v1/cleanup", ""},
		{"PUT", "/api/v1/jobs", ""}, {"GET", "/nothing", ""}, {"POST", "/api/v1/health", ""}, {"GET", "/api/v1/health/", ""}, {"GET", "/", ""},
		{"POST", "/api/v1/images", strings.Repeat(" ", 3<<20)},
	} {
		// The client cannot parse a URL with a bare percent sign.
		path := strings.ReplaceAll(request.path, "%", "%25")
		if r := s.do(t, request.method, path, request.body, "Authorization", ""); r.status != 401 {
			t.Errorf("%s %s: %d %s, want 401", request.method, request.path, r.status, r.body)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		if r := s.do(t, method, "/api/v1/health", "", "Authorization", ""); r.status != 200 {
			t.Errorf("%s health: %d", method, r.status)
		}
	}
}

func TestSocketNeedsNoToken(t *testing.T) {
	t.Parallel()
	s := start(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	s.client, s.url = &http.Client{Transport: transport}, "http://seedbed"
	s.routes = routes(t, s.url)
	if r := s.do(t, "GET", "/api/v1/jobs", "", "Authorization", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.do(t, "GET", "/nothing", "", "Authorization", ""); r.status != 404 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestEmptyTokenIsRefused(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := api.New(api.Config{Token: []byte(" \n")}).Serve(t.Context(), ln); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("error %v", err)
	}
	if _, err := ln.Accept(); err == nil {
		t.Error("the listener is still open")
	}
}
