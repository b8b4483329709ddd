package signin_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/api/signin"
	"seedbed/internal/lab/leak"
	"seedbed/internal/oidctest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const redirect = "http://127.0.0.1:1/api/v1/signin/callback"

var flow = signin.Flow{State: "state", Nonce: "nonce", Verifier: "a verifier of more than forty-three characters, as it must be"}

// start returns a provider, and its client with that change of the configuration.
func start(t *testing.T, change func(*signin.Config)) (*oidctest.Provider, *signin.Provider) {
	t.Helper()
	at := oidctest.Start()
	t.Cleanup(at.Close)
	c := signin.Config{Issuer: at.URL, ClientID: oidctest.ClientID, Secret: oidctest.Secret, Redirect: redirect,
		Scopes: []string{"profile"}, UsernameClaim: "preferred_username", GroupsClaim: "groups"}
	if change != nil {
		change(&c)
	}
	p := signin.New(c)
	t.Cleanup(p.Close)
	return at, p
}

// visit goes to the provider as a browser does, and returns what its redirect brought.
func visit(t *testing.T, p *signin.Provider) signin.Answer {
	t.Helper()
	to, err := p.URL(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(request(t, to))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	back, err := res.Location()
	if err != nil || back.Query().Get("state") != flow.State || !strings.HasPrefix(back.String(), redirect) {
		t.Fatalf("the provider sends the browser to %v, %v", back, err)
	}
	return signin.Answer{Code: back.Query().Get("code"), Issuer: back.Query().Get("iss")}
}

// is reports whether an error is of that kind, and has that text.
func is(err, kind error, text string) bool {
	return errors.Is(err, kind) && strings.Contains(err.Error(), text)
}

func request(t *testing.T, to string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestPerson(t *testing.T) {
	t.Parallel()
	at, p := start(t, nil)
	got, err := p.Person(t.Context(), flow, visit(t, p))
	if err != nil {
		t.Fatal(err)
	}
	want := seedbed.Person{Issuer: at.URL, Subject: "0a1b", Name: "anna@example.org", Groups: []string{"ops"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	to, err := p.URL(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("scope") != "openid profile" || u.Query().Get("code_challenge_method") != "S256" ||
		strings.Contains(to, flow.Verifier) || strings.Contains(to, url.QueryEscape(flow.Verifier)) {
		t.Errorf("the browser is sent to %s, %v", to, err)
	}
}

// TestTokens checks which ID tokens are accepted.
func TestTokens(t *testing.T) {
	t.Parallel()
	unsigned := func(c oidctest.Claims) string {
		text, _ := json.Marshal(c)
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
	}
	set := func(name string, v any) func(oidctest.Claims) { return func(c oidctest.Claims) { c[name] = v } }
	for name, test := range map[string]struct {
		alter  func(oidctest.Claims)
		sign   func(at *oidctest.Provider) func(oidctest.Claims) string
		change func(*signin.Config)
		want   string // in the error; empty if there is none
	}{
		"another issuer":   {alter: set("iss", "https://evil.example"), want: "issued by a different provider"},
		"another audience": {alter: set("aud", "other"), want: "expected audience"},
		"two audiences":    {alter: set("aud", []string{"other", oidctest.ClientID}), want: "authorized party"},
		"two, and the party": {alter: func(c oidctest.Claims) {
			c["aud"], c["azp"] = []string{"other", oidctest.ClientID}, oidctest.ClientID
		}},
		"another party":          {alter: set("azp", "other"), want: "authorized party"},
		"another nonce":          {alter: set("nonce", "other"), want: "its nonce is not the one"},
		"no nonce":               {alter: func(c oidctest.Claims) { delete(c, "nonce") }, want: "its nonce is not the one"},
		"expired":                {alter: set("exp", time.Now().Add(-time.Second).Unix()), want: "the ID token expired at"},
		"without an end":         {alter: func(c oidctest.Claims) { delete(c, "exp") }, want: "the ID token expired at"},
		"not yet":                {alter: set("nbf", time.Now().Add(time.Hour).Unix()), want: "current time"},
		"of the future":          {alter: set("iat", time.Now().Add(time.Hour).Unix()), want: "from the future"},
		"another access token":   {alter: set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), want: "at_hash"},
		"no access token's hash": {alter: func(c oidctest.Claims) { delete(c, "at_hash") }},
		"no name":                {alter: func(c oidctest.Claims) { delete(c, "preferred_username") }, want: "no claim preferred_username"},
		"a name of two words":    {alter: set("preferred_username", "token admin"), want: "without spaces"},
		"a name of control":      {alter: set("preferred_username", "a\nb"), want: "without spaces"},
		"no subject":             {alter: func(c oidctest.Claims) { delete(c, "sub") }, want: "subject"},
		"groups of another type": {alter: set("groups", 7), want: "not a list of groups"},
		"groups of too much":     {alter: set("groups", many(1001)), want: "1001 groups"},
		"one group":              {alter: set("groups", "ops")},
		"no groups":              {alter: func(c oidctest.Claims) { delete(c, "groups") }},
		"an address":             {alter: func(c oidctest.Claims) { c["email"], c["email_verified"] = "a@b.example", true }, change: byAddress},
		"an address of a stranger": {alter: func(c oidctest.Claims) { c["email"], c["email_verified"] = "a@b.example", false },
			change: byAddress, want: "has not verified"},
		"an address without a word": {alter: set("email", "a@b.example"), change: byAddress, want: "has not verified"},
		"unsigned":                  {sign: func(*oidctest.Provider) func(oidctest.Claims) string { return unsigned }, want: "not valid"},
		"signed with the public key": {sign: func(at *oidctest.Provider) func(oidctest.Claims) string {
			published := at.Published()
			return func(c oidctest.Claims) string {
				return oidctest.Sign(jose.HS256, jose.JSONWebKey{Key: published, KeyID: "0"}, c)
			}
		}, want: "not valid"},
		"signed with the client's secret": {sign: func(*oidctest.Provider) func(oidctest.Claims) string {
			return func(c oidctest.Claims) string {
				return oidctest.Sign(jose.HS256, []byte(strings.Repeat(oidctest.Secret, 2)), c)
			}
		}, want: "not valid"},
		"not a token": {sign: func(*oidctest.Provider) func(oidctest.Claims) string {
			return func(oidctest.Claims) string { return "hello" }
		}, want: "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, p := start(t, test.change)
			at.Alter(test.alter)
			if test.sign != nil {
				at.SignWith(test.sign(at))
			}
			who, err := p.Person(t.Context(), flow, visit(t, p))
			if test.want == "" {
				if err != nil || who.Subject != "0a1b" {
					t.Errorf("%+v, %v", who, err)
				}
				return
			}
			if !is(err, seedbed.ErrUnauthenticated, test.want) {
				t.Errorf("%v, want one with %q", err, test.want)
			}
		})
	}
}

func byAddress(c *signin.Config) { c.UsernameClaim = "email" }

func TestCodes(t *testing.T) {
	t.Parallel()
	_, p := start(t, nil)
	a := visit(t, p)
	other := flow
	other.Verifier = strings.Repeat("x", 50)
	if _, err := p.Person(t.Context(), other, visit(t, p)); !is(err, seedbed.ErrUnauthenticated, "refuses the code") {
		t.Errorf("with another verifier: %v", err)
	}
	foreign := signin.Answer{Code: a.Code, Issuer: "https://evil.example"}
	if _, err := p.Person(t.Context(), flow, foreign); !is(err, seedbed.ErrUnauthenticated, "") {
		t.Errorf("the answer of another issuer: %v", err)
	}
	if _, err := p.Person(t.Context(), flow, a); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Person(t.Context(), flow, a); !is(err, seedbed.ErrUnauthenticated, "invalid_grant Code not valid") {
		t.Errorf("a code that was used: %v", err)
	}
}

// TestIssuerOfAnswer checks that the answer of a provider that names itself in each must do so.
func TestIssuerOfAnswer(t *testing.T) {
	t.Parallel()
	at, p := start(t, nil)
	at.Describe("authorization_response_iss_parameter_supported", true)
	a := visit(t, p)
	a.Issuer = ""
	if _, err := p.Person(t.Context(), flow, a); !is(err, seedbed.ErrUnauthenticated, "") {
		t.Errorf("without an issuer: %v", err)
	}
}

// TestKeys checks that new keys of the provider are found, and those that it has withdrawn are refused.
func TestKeys(t *testing.T) {
	t.Parallel()
	at, p := start(t, nil)
	if _, err := p.Person(t.Context(), flow, visit(t, p)); err != nil {
		t.Fatal(err)
	}
	at.Rotate()
	if _, err := p.Person(t.Context(), flow, visit(t, p)); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	stranger := oidctest.Start()
	defer stranger.Close()
	stranger.Rotate()
	stranger.Rotate() // it has a key with a number that this provider does not publish
	at.SignWith(stranger.Signed)
	if _, err := p.Person(t.Context(), flow, visit(t, p)); !is(err, seedbed.ErrUnauthenticated, "signature") {
		t.Errorf("signed by another provider: %v", err)
	}
}

func TestProviderDown(t *testing.T) {
	t.Parallel()
	at, p := start(t, func(c *signin.Config) { c.Timeout = 100 * time.Millisecond })
	at.Hold()
	begun := time.Now()
	if _, err := p.URL(t.Context(), flow); !is(err, seedbed.ErrUnavailable, at.URL) {
		t.Errorf("a provider that hangs: %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	at.Release()
	a := visit(t, p) // it is asked again
	at.Hold()
	if _, err := p.Person(t.Context(), flow, a); !is(err, seedbed.ErrUnavailable, "") {
		t.Errorf("a token endpoint that hangs: %v", err)
	}
	at.Close()
	if _, err := p.Person(t.Context(), flow, a); !is(err, seedbed.ErrUnavailable, "") {
		t.Errorf("a provider that is down: %v", err)
	}
	if err := p.Check(t.Context()); !is(err, seedbed.ErrUnavailable, "") {
		t.Errorf("Check of a provider that is down: %v", err)
	}
}

// TestKeysDown checks that a token whose key cannot be fetched is not taken for a forgery.
func TestKeysDown(t *testing.T) {
	t.Parallel()
	at, p := start(t, nil)
	at.Describe("jwks_uri", "http://127.0.0.1:1/keys")
	if _, err := p.Person(t.Context(), flow, visit(t, p)); !is(err, seedbed.ErrUnavailable, "its keys") {
		t.Errorf("%v", err)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		member string
		value  any
		want   string
	}{
		"it is":          {"scopes_supported", []string{"openid"}, ""},
		"another issuer": {"issuer", "https://other.example", "calls itself"},
		"no keys":        {"jwks_uri", "", "jwks_uri"},
		"no endpoint":    {"token_endpoint", "/token", "token_endpoint"},
	} {
		at, p := start(t, nil)
		at.Describe(test.member, test.value)
		err := p.Check(t.Context())
		if test.want == "" && err != nil || test.want != "" && (!is(err, seedbed.ErrConflict, test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestClient checks how the client proves to the provider who it is.
func TestClient(t *testing.T) {
	t.Parallel()
	at, p := start(t, nil)
	at.Describe("token_endpoint_auth_methods_supported", []string{"client_secret_post"})
	if _, err := p.Person(t.Context(), flow, visit(t, p)); err != nil {
		t.Errorf("with the secret in the body: %v", err)
	}
	for name, secret := range map[string]string{"a wrong secret": "wrong", "a public client": ""} {
		_, p := start(t, func(c *signin.Config) { c.Secret = secret })
		_, err := p.Person(t.Context(), flow, visit(t, p))
		if !is(err, seedbed.ErrConflict, "client_secret_file") || strings.Contains(err.Error(), oidctest.Secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// many returns the names of n groups.
func many(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.Repeat("g", i%200) + string(rune('a'+i/200))
	}
	return all
}
