package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/api"
	"seedbed/api/signin"
	"seedbed/api/wire"
	"seedbed/internal/oidctest"
)

// signInServer is an API at which people sign in.
type signInServer struct {
	*server
	provider *oidctest.Provider
	client   *signin.Provider
	signIn   api.SignIn
}

// signInWorld returns a server at which the group ops is an admin of the installation, dev an operator of
// the project acme, and bert a viewer of it.
func signInWorld(t *testing.T) *signInServer {
	t.Helper()
	w := &signInServer{server: start(t), provider: oidctest.Start()}
	t.Cleanup(w.provider.Close)
	w.expect(t, "POST", "/projects", `{"name":"acme"}`, 201)
	w.signIn = api.SignIn{Length: time.Hour, Key: bytes.Repeat([]byte{7}, 32), Grants: []seedbed.PersonGrant{
		{Group: "ops", Project: "default", Role: seedbed.RoleAdmin}, {Group: "dev", Project: "acme", Role: seedbed.RoleOperator},
		{User: "bert", Project: "acme", Role: seedbed.RoleViewer}, {Group: "dev", Project: "acme", Role: seedbed.RoleAdmin},
	}}
	w.again(t)
	return w
}

// again serves the API again with the settings of w.
func (w *signInServer) again(t *testing.T) {
	t.Helper()
	w.stop()
	tcp := listen(t)
	made := w.signIn
	made.Redirect = "http://" + tcp.Addr().String() + "/api/v1/signin/callback"
	w.client = signin.New(signin.Config{Issuer: w.provider.URL, ClientID: oidctest.ClientID, Secret: oidctest.Secret, Redirect: made.Redirect,
		UsernameClaim: "preferred_username", GroupsClaim: "groups", Timeout: 2 * time.Second})
	t.Cleanup(w.client.Close)
	made.Provider = w.client
	c := w.config()
	c.SignIn = &made
	w.serveOn(t, tcp, api.New(c))
	w.routes = routes(t, w.url)
}

// browser is a browser of a person.
type browser struct {
	client *http.Client
	// last is the URL of the last page, and went those on the way to it.
	last *url.URL
	went []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	b := &browser{}
	b.client = &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		b.went = append(b.went, r.URL.String())
		if r.URL.Path == "/cli" || len(via) > 5 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return b
}

// send makes a request as a browser does, and follows where it leads.
func (b *browser) send(t *testing.T, method, to, form string, header ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	b.went = []string{to}
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	b.last = res.Request.URL
	return response{res.StatusCode, res.Header, string(text)}
}

func (b *browser) open(t *testing.T, to string) response {
	t.Helper()
	return b.send(t, "GET", to, "")
}

// listens is a command line that waits for a code.
type listens struct{ verifier, redirect string }

var cli = listens{strings.Repeat("v", 43), "http://127.0.0.1:43210/cli"}

// query is what it sends the browser with.
func (l listens) query() string {
	sum := sha256.Sum256([]byte(l.verifier))
	return "?" + url.Values{"cli_redirect": {l.redirect}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
		"state": {"a-state-of-the-cli"}}.Encode()
}

var ticketOf = regexp.MustCompile(`name="ticket" value="([A-Z0-9]+)"`)

// confirm sends the form of the page of confirmation, and returns the code that comes to the command
// line, or an empty string.
func (b *browser) confirm(t *testing.T, w *signInServer, page response, header ...string) (string, response) {
	t.Helper()
	found := ticketOf.FindStringSubmatch(page.body)
	if page.status != 200 || found == nil {
		t.Fatalf("no page that asks for a confirmation: %+v", page)
	}
	r := b.send(t, "POST", w.url+"/api/v1/signin/confirm", "ticket="+found[1], header...)
	if r.status != http.StatusSeeOther {
		return "", r
	}
	to, err := url.Parse(r.header.Get("Location"))
	if err != nil || !strings.HasPrefix(to.String(), cli.redirect+"?") || to.Query().Get("state") != "a-state-of-the-cli" {
		t.Fatalf("the browser is sent to %s, %v", to, err)
	}
	return to.Query().Get("code"), r
}

// take exchanges a code.
func (w *signInServer) take(t *testing.T, code, verifier string) response {
	t.Helper()
	body, _ := json.Marshal(wire.SessionRequest{Code: code, Verifier: verifier})
	return w.do(t, "POST", "/api/v1/signin/token", string(body), "Authorization", "")
}

// secretOf signs in as the command line does, and returns the session.
func (w *signInServer) secretOf(t *testing.T) wire.NewSession {
	t.Helper()
	b := newBrowser(t)
	code, _ := b.confirm(t, w, b.open(t, w.url+"/api/v1/signin"+cli.query()))
	r := w.take(t, code, cli.verifier)
	var made wire.NewSession
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || r.status != 201 {
		t.Fatalf("%+v, %v", r, err)
	}
	return made
}

// with makes a request with a secret.
func (w *signInServer) with(t *testing.T, secret, method, path string, header ...string) response {
	t.Helper()
	return w.do(t, method, "/api/v1"+path, "", append([]string{"Authorization", "Bearer " + secret}, header...)...)
}

// noSession checks that nobody has got a session.
func (w *signInServer) noSession(t *testing.T, why string) {
	t.Helper()
	if all, err := w.db.Sessions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%s: there are sessions: %+v, %v", why, all, err)
	}
}
