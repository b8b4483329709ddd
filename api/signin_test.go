package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/api/wire"
	"seedbed/internal/oidctest"
)

// TestSignInOfABrowser checks the way of a browser that signs in for itself.
func TestSignInOfABrowser(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	b := newBrowser(t)
	page := b.open(t, w.url+"/api/v1/signin")
	for _, want := range []string{"<h1>You are signed in</h1>", "anna@example.org", "admin in the project default", `lang="en"`} {
		if page.status != 200 || !strings.Contains(page.body, want) {
			t.Errorf("no %q in the page: %+v", want, page)
		}
	}
	for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; style-src 'sha256-", "X-Frame-Options": "DENY",
		"Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if !strings.HasPrefix(page.header.Get(name), want) {
			t.Errorf("%s: %q", name, page.header.Get(name))
		}
	}
	if r := b.open(t, w.url+"/api/v1/tokens"); r.status != 200 {
		t.Errorf("with the cookie: %+v", r)
	}
	foreign := []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}
	if r := b.send(t, "DELETE", w.url+"/api/v1/profiles/none", "", foreign...); r.status != 403 {
		t.Errorf("a page of another origin: %+v", r)
	}
	if r := b.send(t, "POST", w.url+"/api/v1/logout", ""); r.status != 200 {
		t.Errorf("%+v", r)
	}
	w.noSession(t, "after the end of the session")
	if r := b.open(t, w.url+"/api/v1/tokens"); r.status != 401 {
		t.Errorf("after the end of the session: %+v", r)
	}
	actor := seedbed.Person{Issuer: w.provider.URL, Subject: "0a1b", Name: "anna@example.org"}.Actor()
	log := w.do(t, "GET", "/api/v1/audit", "")
	for _, want := range []string{`"actor":"` + actor + `"`, `"what":"begin session `, `"what":"end session `} {
		if !strings.Contains(log.body, want) {
			t.Errorf("the audit log has no %s: %s", want, log.body)
		}
	}
}

// TestSignInOfTheCommandLine checks the way of the command line, and what its session may do.
func TestSignInOfTheCommandLine(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	w.provider.SignIn(oidctest.Claims{"sub": "7", "preferred_username": "carl", "groups": []string{"dev", "other"}})
	if r := w.do(t, "GET", "/api/v1/signin/provider", "", "Authorization", ""); r.status != 200 ||
		!strings.Contains(r.body, `"url":"`+w.url+`/api/v1/signin"`) {
		t.Errorf("%+v", r)
	}
	b := newBrowser(t)
	page := b.open(t, w.url+"/api/v1/signin"+cli.query())
	for _, want := range []string{"<strong>carl</strong>", "operator in the project acme", cli.redirect, `<button type="submit">`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("no %q in the page: %+v", want, page)
		}
	}
	if policy := page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' http://127.0.0.1:43210;") {
		t.Errorf("the form may not go on to the command line: %s", policy)
	}
	w.noSession(t, "before the person has agreed")
	code, _ := b.confirm(t, w, page, "Origin", w.url, "Sec-Fetch-Site", "same-origin")
	w.noSession(t, "before the command line has proved who it is")
	r := w.take(t, code, cli.verifier)
	var made wire.NewSession
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != 201 || !strings.HasPrefix(made.Secret, "sbs_") ||
		!made.Session.Current || r.header.Get("Location") != "/api/v1/sessions/"+made.Session.ID {
		t.Fatalf("%+v, %v", r, err)
	}
	want := []seedbed.Grant{{Project: "acme", Role: seedbed.RoleOperator}} // the first of the project
	if s := made.Session; !slices.Equal(s.Grants, want) || s.Name != "carl" || !slices.Equal(s.Groups, []string{"dev", "other"}) {
		t.Errorf("%+v", made.Session)
	}
	for _, test := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/instances", 200}, {"GET", "/tokens", 403}, {"GET", "/nodes", 403},
		{"GET", "/projects/acme", 200}, {"GET", "/projects/default", 404},
		{"GET", "/sessions", 200}, {"GET", "/sessions/current", 200}, {"GET", "/sessions/" + made.Session.ID, 200},
	} {
		if r := w.with(t, made.Secret, test.method, test.path); r.status != test.status {
			t.Errorf("%s %s: %d %s, want %d", test.method, test.path, r.status, r.body, test.status)
		}
	}
	if r := w.with(t, made.Secret, "GET", "/instances", "Seedbed-Project", "default"); r.status != 403 {
		t.Errorf("in another project: %+v", r)
	}
	if r := w.with(t, made.Secret, "DELETE", "/sessions/current"); r.status != 204 {
		t.Errorf("%+v", r)
	}
	if r := w.with(t, made.Secret, "GET", "/instances"); r.status != 401 {
		t.Errorf("after the end: %+v", r)
	}
	if strings.Contains(w.log.String(), made.Secret) || strings.Contains(w.log.String(), code) {
		t.Error("the log has a secret")
	}
}

// TestSignInRefused checks that whatever is wrong with a sign-in is said, and that nothing comes of it.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	set := func(name string, v any) func(*testing.T, *signInServer) {
		return func(_ *testing.T, w *signInServer) { w.provider.Alter(func(c oidctest.Claims) { c[name] = v }) }
	}
	for name, test := range map[string]struct {
		before func(*testing.T, *signInServer)
		status int
		want   string
	}{
		"another issuer":   {set("iss", "https://evil.example"), 401, "issued by a different provider"},
		"another audience": {set("aud", "other"), 401, "expected audience"},
		"another nonce":    {set("nonce", "other"), 401, "its nonce is not the one"},
		"expired":          {set("exp", 1), 401, "the ID token expired at 1970"},
		"unsigned": {func(_ *testing.T, w *signInServer) {
			w.provider.SignWith(func(oidctest.Claims) string { return "eyJhbGciOiJub25lIn0.e30." })
		}, 401, "is not valid"},
		"no grant": {func(_ *testing.T, w *signInServer) {
			w.provider.SignIn(oidctest.Claims{"sub": "9", "preferred_username": "eve", "groups": []string{"guests"}})
		}, 403, "may do nothing in this installation"},
		"a provider that is down": {func(_ *testing.T, w *signInServer) { w.provider.Close() }, 503, "The provider"},
		"a provider that hangs":   {func(_ *testing.T, w *signInServer) { w.provider.Hold() }, 503, "The provider"},
		"a provider that declines": {func(_ *testing.T, w *signInServer) { w.provider.Decline("access_denied") }, 401,
			"did not sign you in: access_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := signInWorld(t)
			test.before(t, w)
			for _, query := range []string{"", cli.query()} {
				b := newBrowser(t)
				r := b.open(t, w.url+"/api/v1/signin"+query)
				if r.status != test.status || !strings.Contains(r.body, test.want) || !strings.Contains(r.body, `role="alert"`) ||
					ticketOf.MatchString(r.body) {
					t.Errorf("%+v, want %d and %q", r, test.status, test.want)
				}
				if r := b.open(t, w.url+"/api/v1/instances"); r.status != 401 {
					t.Errorf("the browser may read: %+v", r)
				}
			}
			w.noSession(t, name)
		})
	}
}

// TestSignInReplayed checks that each step of a sign-in can be taken once, and only by who has begun it.
func TestSignInReplayed(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	b := newBrowser(t)
	begin := w.url + "/api/v1/signin" + cli.query()
	// The cookie of a sign-in that has not ended.
	kept := func(b *browser) []*http.Cookie {
		b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if r := b.open(t, begin); r.status != 302 {
			t.Fatalf("%+v", r)
		}
		return b.client.Jar.Cookies(b.last)
	}
	cookies := kept(b)
	if len(cookies) != 1 || strings.Contains(cookies[0].Value, cli.verifier) {
		t.Fatalf("%+v", cookies)
	}
	r := b.open(t, begin)
	cookies = b.client.Jar.Cookies(b.last)
	at, _ := url.Parse(r.header.Get("Location"))
	back := newBrowser(t)
	back.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	callback := back.open(t, at.String()).header.Get("Location")
	if !strings.HasPrefix(callback, w.url) {
		t.Fatalf("the provider sends the browser to %q", callback)
	}
	// Another browser has no cookie, or one of its own sign-in.
	if r := newBrowser(t).open(t, callback); r.status != 401 || !strings.Contains(r.body, "has not begun to sign in") {
		t.Errorf("another browser: %+v", r)
	}
	other := newBrowser(t)
	kept(other)
	if r := other.open(t, callback); r.status != 401 || !strings.Contains(r.body, "another sign-in") {
		t.Errorf("another browser that signs in: %+v", r)
	}
	page := b.open(t, callback)
	ticket := ticketOf.FindStringSubmatch(page.body)
	if page.status != 200 || ticket == nil {
		t.Fatalf("%+v", page)
	}
	replay := newBrowser(t)
	replay.client.Jar.SetCookies(b.last, cookies)
	if r := replay.open(t, callback); r.status != 409 || !strings.Contains(r.body, "was used already") {
		t.Errorf("the state a second time: %+v", r)
	}
	// The form needs the cookie of the browser, and an origin of its own.
	confirm := w.url + "/api/v1/signin/confirm"
	if r := newBrowser(t).send(t, "POST", confirm, "ticket="+ticket[1]); r.status != 401 {
		t.Errorf("the form in another browser: %+v", r)
	}
	if r := b.send(t, "POST", confirm, "ticket="+ticket[1], "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"); r.status != 403 {
		t.Errorf("the form of another page: %+v", r)
	}
	code, _ := b.confirm(t, w, page)
	if r := b.send(t, "POST", confirm, "ticket="+ticket[1]); r.status != 401 {
		t.Errorf("the form a second time: %+v", r)
	}
	// A code is used up by a wrong verifier.
	if r := w.take(t, code, strings.Repeat("w", 43)); r.status != 401 || !strings.Contains(r.body, "the verifier is not the one") {
		t.Errorf("another verifier: %+v", r)
	}
	if r := w.take(t, code, cli.verifier); r.status != 401 {
		t.Errorf("after another verifier: %+v", r)
	}
	w.noSession(t, "replayed")
	b = newBrowser(t)
	code, _ = b.confirm(t, w, b.open(t, begin))
	if r := w.take(t, code, cli.verifier); r.status != 201 {
		t.Errorf("%+v", r)
	}
	if r := w.take(t, code, cli.verifier); r.status != 401 {
		t.Errorf("a code a second time: %+v", r)
	}
	if all, err := w.db.Sessions(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestSignInRedirects checks that a code only goes to a program on the person's own computer.
func TestSignInRedirects(t *testing.T) {
	t.Parallel()
	w := signInWorld(t)
	for _, to := range []string{
		"https://evil.example/", "http://evil.example:80/", "http://127.0.0.1.evil.example:80/", "http://localhost:80/",
		"http://127.0.0.1/", "http://127.0.0.1:0/", "http://127.0.0.1:80/?a=b", "http://127.0.0.1:80/#a", "http://me@127.0.0.1:80/",
		"http://192.0.2.1:80/", "//127.0.0.1:80/", "javascript:alert(1)", "seedbed://127.0.0.1:80/",
		"http://127.0.0.1:80@evil.example:80/", "http://[::ffff:192.0.2.1]:80/",
	} {
		r := newBrowser(t).open(t, w.url+"/api/v1/signin"+listens{cli.verifier, to}.query())
		if r.status != 422 || !strings.Contains(r.body, "li_redirect") || r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %+v", to, r)
		}
	}
	for _, query := range []string{
		"?cli_redirect=http://127.0.0.1:80/", "?challenge=abc&state=a-state-of-the-cli", "?state=a-state-of-the-cli",
	} {
		if r := newBrowser(t).open(t, w.url+"/api/v1/signin"+query); r.status != 422 {
			t.Errorf("%s: %+v", query, r)
		}
	}
	if asked := w.provider.Asked(); len(asked) != 0 {
		t.Errorf("the provider was asked for %v", asked)
	}
	for _, to := range []string{"http://[::1]:80/cli", "http://127.8.9.10:65535/cli"} {
		if r := newBrowser(t).open(t, w.url+"/api/v1/signin"+listens{cli.verifier, to}.query()); r.status != 200 {
			t.Errorf("%s: %+v", to, r)
		}
	}
}
