package api_test

import (
	"strings"
	"testing"

	"seedbed"
)

// TestProjectRate sends requests with the tokens of a project that has a rate. They count together. The
// admins of the installation are not slowed down in that project either.
func TestProjectRate(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	var tenants []string
	for _, name := range []string{"one", "two"} {
		tenants = append(tenants, s.newTokenIn(t, "acme", name, seedbed.RoleViewer))
	}
	home := s.newToken(t, "home", seedbed.RoleOperator)
	get := func(secret string, more ...string) response {
		t.Helper()
		return s.do(t, "GET", "/api/v1/instances", "", append([]string{"Authorization", "Bearer " + secret}, more...)...)
	}
	status := func(want int, secret string, more ...string) response {
		t.Helper()
		r := get(secret, more...)
		if r.status != want {
			t.Fatalf("%+v: want status %d", r, want)
		}
		return r
	}
	s.expect(t, "PUT", "/projects/acme/quota", `{"api_rate":0.01,"api_burst":3}`, 200)
	status(200, tenants[0])
	status(200, tenants[1])
	status(200, tenants[0])
	r := status(429, tenants[1])
	if after := r.header.Get("Retry-After"); after != "100" && after != "99" ||
		!strings.Contains(r.body, `project \"acme\" is above its rate of 0.01 requests per second to the API: try again later`) {
		t.Errorf("%+v", r)
	}
	for range 5 {
		status(401, "wrong")
		status(200, home)
		status(200, token, "Seedbed-Project", "acme")
	}
	s.expect(t, "PUT", "/projects/acme/quota", `{}`, 200)
	status(200, tenants[1]) // at once

	// The rate of the operators' own project bounds all of its tokens but the admins'.
	s.expect(t, "PUT", "/projects/default/quota", `{"api_rate":0.01,"api_burst":1}`, 200)
	status(200, home)
	status(429, home)
	status(200, token)
	status(200, tenants[0])

	for body, words := range map[string]string{
		`{"api_rate":-1}`: "api_rate is -1", `{"hook_rate":100001}`: "hook_rate is 100001: expected at most 100000",
		`{"api_burst":5}`: "api_burst is without effect", `{"api_rate":1,"api_burst":-1}`: "api_burst is -1",
	} {
		if r := s.do(t, "PUT", "/api/v1/projects/acme/quota", body); r.status != 422 && r.status != 400 || !strings.Contains(r.body, words) {
			t.Errorf("%s: %+v", body, r)
		}
	}
}
