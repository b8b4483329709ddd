package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

const goodOIDC = `
oidc:
  issuer: https://login.example.org/realms/staff
  client_id: seedbed
  redirect: https://seedbed.example.org:7370/api/v1/signin/callback
  session: 8h
  grants:
  - {group: ops, project: default, role: admin}
  - {user: anna@example.org, project: acme, role: viewer}
`

func TestOIDC(t *testing.T) {
	t.Parallel()
	c, err := Parse("f.yaml", []byte(goodOIDC))
	if err != nil {
		t.Fatal(err)
	}
	want := OIDC{Issuer: "https://login.example.org/realms/staff", ClientID: "seedbed",
		Redirect: "https://seedbed.example.org:7370/api/v1/signin/callback", Scopes: []string{"profile", "email"},
		UsernameClaim: "preferred_username", GroupsClaim: "groups", Session: 8 * time.Hour,
		Grants: []seedbed.PersonGrant{
			{Group: "ops", Project: "default", Role: "admin"}, {User: "anna@example.org", Project: "acme", Role: "viewer"},
		}}
	if diff := cmp.Diff(want, c.OIDC); diff != "" {
		t.Error(diff)
	}
}

func TestOIDCRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ old, new, want string }{
		{"https://login.example.org", "http://login.example.org", "oidc.issuer: \"http://login.example.org/realms/staff\" cannot"},
		{"realms/staff", "realms?x=1", "oidc.issuer"},
		{"https://login", "https://me:pw@login", "oidc.issuer"},
		{"client_id: seedbed", "client_id: ''", "oidc.client_id"},
		{"redirect: https", "redirect: http", "oidc.redirect"},
		{"/api/v1/signin/callback", "/", "ends with /api/v1/signin/callback"},
		{"session: 8h", "session: 1m", "oidc.session"},
		{"session: 8h", "session: 60d", "oidc.session"},
		{"session: 8h", "client_secret_file: secret", "oidc.client_secret_file"},
		{"session: 8h", "ca: ca.pem", "oidc.ca"},
		{"session: 8h", "scopes: ['a b']", "oidc.scopes[0]"},
		{"session: 8h", "username_claim: ''", "oidc.username_claim"},
		{"session: 8h", "groups_claim: ''", "oidc.groups_claim with it"},
		{"{group: ops, ", "{", "oidc.grants[0].group"},
		{"group: ops", "group: ops, user: anna", "a group or a user, one of the two"},
		{"group: ops", "team: ops", "unknown key \"oidc.grants[0].team\""},
		{"project: acme", "project: ACME", "oidc.grants[1].project"},
		{"role: viewer", "role: ''", "oidc.grants[1].role"},
		{goodOIDC[strings.Index(goodOIDC, "  grants:"):], "", "oidc.grants"},
		{"issuer: https://login.example.org/realms/staff", "groups_claim: g", "oidc.issuer with it"},
	} {
		text := strings.Replace(goodOIDC, test.old, test.new, 1)
		if text == goodOIDC {
			t.Fatalf("%q is not in the text", test.old)
		}
		if _, err := Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q for %q: %v, want %q", test.new, test.old, err, test.want)
		}
	}
}
