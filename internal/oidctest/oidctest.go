// Package oidctest is an OpenID Connect provider for tests. Whoever comes to it is signed in at once, as
// the person that the test has set. It checks what a client must send: its name and secret, the redirect
// and the verifier of the code.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The client that a Provider knows.
const (
	ClientID = "seedbed"
	Secret   = "a secret of the test's client"
)

// Claims are those of an ID token.
type Claims map[string]any

// Provider is a provider on 127.0.0.1.
type Provider struct {
	// URL is the issuer.
	URL string

	server *httptest.Server
	mu     sync.Mutex
	person Claims
	alter  func(Claims)
	sign   func(Claims) string
	keys   []*ecdsa.PrivateKey
	shown  int // the first key that is published
	codes  map[string]grant
	held   chan struct{} // not nil while answers wait
	fields map[string]any
	asked  []string
	no     string // why nobody is signed in, or empty
}

// grant is what a code stands for.
type grant struct{ nonce, challenge, redirect string }

// Start starts a provider, at which anna is signed in, of the group ops.
func Start() *Provider {
	p := &Provider{codes: map[string]grant{}, person: Claims{"sub": "0a1b", "preferred_username": "anna@example.org",
		"groups": []string{"ops"}}, fields: map[string]any{}}
	p.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.publish)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		held := p.held
		p.asked = append(p.asked, r.URL.Path)
		p.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
			}
			return
		}
		mux.ServeHTTP(w, r)
	}))
	p.URL = p.server.URL
	return p
}

// Close stops the provider.
func (p *Provider) Close() {
	p.Release()
	p.server.Close()
}

// Asked returns the paths of the requests so far.
func (p *Provider) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// SignIn makes the person of these claims the one who is signed in.
func (p *Provider) SignIn(c Claims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = c
}

// Decline makes the provider sign nobody in, for a reason such as access_denied.
func (p *Provider) Decline(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.no = why
}

// Alter makes alter change the claims of each ID token. Nil changes none.
func (p *Provider) Alter(alter func(Claims)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alter = alter
}

// SignWith makes sign turn claims into each ID token. Nil signs as a provider does.
func (p *Provider) SignWith(sign func(Claims) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = sign
}

// Describe sets a member of the provider's description of itself.
func (p *Provider) Describe(name string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fields[name] = value
}

// Rotate makes a new key, with which tokens are signed from now on. The former ones are no longer
// published.
func (p *Provider) Rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // never fails (crypto/rand)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, key)
	p.shown = len(p.keys) - 1
}

// Hold makes all requests wait until Release.
func (p *Provider) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

// Release ends Hold.
func (p *Provider) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	said := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "client_secret_basic"},
	}
	p.mu.Lock()
	maps.Copy(said, p.fields)
	p.mu.Unlock()
	answer(w, http.StatusOK, said)
}

// authorize signs in at once, and sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("code_challenge") == "" || q.Get("state") == "" || q.Get("nonce") == "" {
		http.Error(w, "this is not the request of a client: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	no := p.no
	p.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
	p.mu.Unlock()
	if no != "" {
		back.RawQuery = url.Values{"error": {no}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
		http.Redirect(w, r, back.String(), http.StatusFound)
		return
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	} else {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	}
	if id != ClientID || secret != Secret {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	code := r.FormValue("code")
	p.mu.Lock()
	defer p.mu.Unlock()
	g, there := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !there || r.FormValue("redirect_uri") != g.redirect || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "Code not valid"})
		return
	}
	access := rand.Text()
	hash := sha256.Sum256([]byte(access))
	now := time.Now()
	claims := Claims{"iss": p.URL, "aud": ClientID, "nonce": g.nonce, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"at_hash": base64.RawURLEncoding.EncodeToString(hash[:16])}
	maps.Copy(claims, p.person)
	if p.alter != nil {
		p.alter(claims)
	}
	sign := p.sign
	if sign == nil {
		sign = p.Signed
	}
	answer(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": sign(claims)})
}

// Signed returns the ID token of the claims, signed with the newest key.
func (p *Provider) Signed(c Claims) string {
	last := len(p.keys) - 1
	return Sign(jose.ES256, jose.JSONWebKey{Key: p.keys[last], KeyID: fmt.Sprint(last)}, c)
}

// Sign returns the claims as a JSON web token, signed with that key.
func Sign(with jose.SignatureAlgorithm, key any, c Claims) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // claims are plain values
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: with, Key: key}, nil)
	if err != nil {
		panic(err) // of a key that does not fit
	}
	made, err := signer.Sign(text)
	if err != nil {
		panic(err)
	}
	token, err := made.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// Published returns the keys that the provider publishes, as JSON.
func (p *Provider) Published() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	set := jose.JSONWebKeySet{}
	for i := p.shown; i < len(p.keys); i++ {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: p.keys[i].Public(), KeyID: fmt.Sprint(i), Algorithm: "ES256", Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		panic(err) // the keys are of this package
	}
	return text
}

func (p *Provider) publish(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(p.Published())
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
