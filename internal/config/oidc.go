package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"seedbed"
)

// OIDC configures how people sign in. Without Issuer, only tokens and the control socket give access.
type OIDC struct {
	Issuer   string `yaml:"issuer"`
	ClientID string `yaml:"client_id"`
	// ClientSecretFile is a file with the client's secret; empty for a client without one.
	ClientSecretFile string `yaml:"client_secret_file"`
	// Redirect is the URL of SignInPath as browsers reach it.
	Redirect      string        `yaml:"redirect"`
	Scopes        []string      `yaml:"scopes"` // besides openid
	UsernameClaim string        `yaml:"username_claim"`
	GroupsClaim   string        `yaml:"groups_claim"`
	Session       time.Duration `yaml:"session"`
	CA            string        `yaml:"ca"` // PEM; empty means the system's authorities
	// Grants say who may do what. A person has all that apply.
	Grants []seedbed.PersonGrant `yaml:"grants"`
}

// SignInPath is the path to which the provider sends browsers back.
const SignInPath = "/api/v1/signin/callback"

func defaultOIDC() OIDC {
	return OIDC{Scopes: []string{"profile", "email"}, UsernameClaim: "preferred_username", GroupsClaim: "groups", Session: 12 * time.Hour,
		Grants: []seedbed.PersonGrant{}}
}

func (k *checker) oidc(o OIDC) {
	if o.Issuer == "" {
		for _, f := range []struct{ key, value string }{
			{"client_id", o.ClientID}, {"client_secret_file", o.ClientSecretFile}, {"redirect", o.Redirect}, {"ca", o.CA},
		} {
			k.need(f.value == "", "oidc."+f.key, f.value, "oidc.issuer with it")
		}
		k.need(len(o.Grants) == 0, "oidc.grants", o.Grants, "oidc.issuer with it")
		return
	}
	k.public("oidc.issuer", o.Issuer, "https://login.example.org/realms/staff")
	k.need(o.ClientID != "", "oidc.client_id", o.ClientID, "the name under which the provider knows this installation")
	k.public("oidc.redirect", o.Redirect, "https://seedbed.example.org:7370"+SignInPath)
	k.need(strings.HasSuffix(o.Redirect, SignInPath), "oidc.redirect", o.Redirect, "a URL that ends with "+SignInPath)
	for _, f := range []struct{ key, path string }{{"client_secret_file", o.ClientSecretFile}, {"ca", o.CA}} {
		if f.path != "" {
			k.path("oidc."+f.key, f.path)
		}
	}
	for i, s := range o.Scopes {
		k.need(s != "" && !strings.ContainsAny(s, " \t\n"), fmt.Sprintf("oidc.scopes[%d]", i), s, "a scope, such as email")
	}
	k.need(o.UsernameClaim != "", "oidc.username_claim", o.UsernameClaim, "a claim of the ID token, such as preferred_username")
	k.between("oidc.session", o.Session, 5*time.Minute, 30*day)
	k.need(len(o.Grants) > 0, "oidc.grants", "[]", "at least one: without a grant, nobody may sign in")
	for i, g := range o.Grants {
		key := fmt.Sprintf("oidc.grants[%d].", i)
		switch {
		case (g.Group == "") == (g.User == ""):
			k.need(false, key+"group", g.Group, "a group or a user, one of the two")
		case g.Group != "" && o.GroupsClaim == "":
			k.need(false, key+"group", g.Group, "oidc.groups_claim with it")
		}
		k.need(seedbed.CheckProjectName(g.Project) == nil, key+"project", g.Project, "the name of a project, such as "+seedbed.DefaultProject)
		_, err := seedbed.ParseRole(string(g.Role))
		k.need(err == nil, key+"role", g.Role, "viewer, operator, admin, or the name of a role that was made")
	}
}

// public checks a URL that browsers open. Without TLS it must be one of this host, for trials.
func (k *checker) public(key, value, example string) {
	u, err := url.Parse(value)
	ok := err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && !u.ForceQuery &&
		(u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()))
	k.need(ok, key, value, "an https URL without a query, such as "+example)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
