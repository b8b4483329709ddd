// Package signin is the client of an OpenID Connect provider, at which people sign in: the code flow
// with PKCE. It sends a browser to the provider, exchanges the code that comes back, and verifies the ID
// token (OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9207).
package signin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"seedbed"
)

// Config is what a Provider works with.
type Config struct {
	// Issuer is the provider's URL.
	Issuer string
	// ClientID is the name under which the provider knows this installation. Secret is empty for a client
	// without one.
	ClientID, Secret string
	// Redirect is the URL to which the provider sends the browser back.
	Redirect string
	// Scopes are requested besides openid.
	Scopes []string
	// UsernameClaim and GroupsClaim are the claims of the ID token that have a person's name and groups.
	UsernameClaim, GroupsClaim string
	// Roots are the authorities that may sign the provider's certificate; nil means the system's.
	Roots *x509.CertPool
	// Timeout bounds each request to the provider. Default 10 s.
	Timeout time.Duration
}

const (
	defaultTimeout = 10 * time.Second
	// metadataAge is how long the provider's description of itself is used before it is read again.
	metadataAge = time.Hour
	// maxAnswer bounds the answers of the provider.
	maxAnswer = 1 << 20
)

// algorithms are the signatures of ID tokens that are accepted, whatever the provider says. None is
// symmetric: the key of one is known to the client as well.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Provider is an OpenID Connect provider. Its methods are safe for concurrent use.
type Provider struct {
	config Config
	client *http.Client
	known  atomic.Pointer[known]
}

// known is what the provider said of itself.
type known struct {
	at       time.Time
	flow     oauth2.Config
	verifier *oidc.IDTokenVerifier
	// namesItself reports whether each answer of the provider has its issuer.
	namesItself bool
}

// New returns a Provider. It does not call the provider, which may be down.
func New(c Config) *Provider {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots},
		DialContext:     (&net.Dialer{Timeout: c.Timeout}).DialContext,
		IdleConnTimeout: time.Minute, MaxIdleConns: 4, ForceAttemptHTTP2: true,
	}
	return &Provider{config: c, client: &http.Client{
		Transport: bounded{transport}, Timeout: c.Timeout,
		// A redirect could lead the secret of the client elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// bounded bounds the bodies of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}

// CloseIdleConnections implements what http.Client asks of a transport.
func (b bounded) CloseIdleConnections() {
	if t, ok := b.RoundTripper.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Issuer returns the provider's URL.
func (p *Provider) Issuer() string { return p.config.Issuer }

// Check reads the provider's description of itself. It returns ErrUnavailable if the provider does not
// answer, and ErrConflict if what it says cannot be used.
func (p *Provider) Check(ctx context.Context) error {
	_, err := p.read(ctx)
	return err
}

// metadata returns the provider's description of itself, which is read at the first use, after
// failures, and once an hour. While it cannot be read, the former one is used.
func (p *Provider) metadata(ctx context.Context) (*known, error) {
	was := p.known.Load()
	if was != nil && time.Since(was.at) < metadataAge {
		return was, nil
	}
	now, err := p.read(ctx)
	if err != nil && was != nil {
		return was, nil
	}
	return now, err
}

func (p *Provider) read(ctx context.Context) (*known, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if other, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "the provider at %s calls itself %q: expected the issuer that the configuration names",
			p.config.Issuer, seedbed.Clip(other.Discovered))
	}
	if err != nil {
		return nil, p.unavailable("its /.well-known/openid-configuration", err)
	}
	var said struct {
		Keys        string   `json:"jwks_uri"`
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&said); err != nil {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "the provider %s describes itself in a form that cannot be read", p.config.Issuer)
	}
	at := found.Endpoint()
	for what, text := range map[string]string{"authorization_endpoint": at.AuthURL, "token_endpoint": at.TokenURL, "jwks_uri": said.Keys} {
		u, err := url.Parse(text)
		// A provider without TLS, which is only accepted on this host, has none of these with it.
		if err != nil || u.Host == "" || u.Scheme != "https" && !strings.HasPrefix(p.config.Issuer, "http:") {
			return nil, seedbed.Errorf(seedbed.ErrConflict, "the provider %s has the %s %q: expected an https URL",
				p.config.Issuer, what, seedbed.Clip(text))
		}
	}
	if at.AuthStyle = oauth2.AuthStyleInHeader; p.config.Secret == "" ||
		len(said.Methods) > 0 && !slices.Contains(said.Methods, "client_secret_basic") {
		at.AuthStyle = oauth2.AuthStyleInParams
	}
	k := &known{
		at: time.Now(), namesItself: said.NamesItself,
		flow: oauth2.Config{ClientID: p.config.ClientID, ClientSecret: p.config.Secret, Endpoint: at, RedirectURL: p.config.Redirect,
			Scopes: append([]string{oidc.ScopeOpenID}, p.config.Scopes...)},
		verifier: found.Verifier(&oidc.Config{ClientID: p.config.ClientID, SupportedSigningAlgs: algorithms}),
	}
	p.known.Store(k)
	return k, nil
}

// unavailable returns the error for a provider that does not answer, or not as it should.
func (p *Provider) unavailable(what string, err error) error {
	text := err.Error()
	if u, ok := errors.AsType[*url.Error](err); ok {
		text = u.Err.Error()
	}
	return seedbed.Errorf(seedbed.ErrUnavailable, "the provider %s: %s: %s", p.config.Issuer, what, line(text))
}

// line returns a text of the provider on one line, shortened.
func line(s string) string { return seedbed.Clip(strings.Join(strings.Fields(s), " ")) }

// Flow is one sign-in: what a browser takes to the provider, and what must come back.
type Flow struct {
	// State comes back in the URL, Nonce in the ID token. Verifier is only sent to the provider itself.
	State, Nonce, Verifier string
}

// URL returns where a browser begins to sign in.
func (p *Provider) URL(ctx context.Context, f Flow) (string, error) {
	k, err := p.metadata(ctx)
	if err != nil {
		return "", err
	}
	return k.flow.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Answer is what the provider's redirect brought.
type Answer struct {
	Code string
	// Issuer is the parameter iss, or empty.
	Issuer string
}

// Person exchanges a code, and returns who has signed in. It returns ErrUnauthenticated if the
// provider refuses the code, or if its ID token is not one for this sign-in.
func (p *Provider) Person(ctx context.Context, f Flow, a Answer) (seedbed.Person, error) {
	k, err := p.metadata(ctx)
	if err != nil {
		return seedbed.Person{}, err
	}
	if (k.namesItself || a.Issuer != "") && a.Issuer != p.config.Issuer {
		return seedbed.Person{}, refused("the answer is one of the issuer %q, not of %s", seedbed.Clip(a.Issuer), p.config.Issuer)
	}
	ctx = oidc.ClientContext(ctx, p.client)
	answer, err := k.flow.Exchange(ctx, a.Code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return seedbed.Person{}, p.exchangeError(err)
	}
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return seedbed.Person{}, refused("the provider %s answered without an ID token", p.config.Issuer)
	}
	return p.verify(ctx, k, raw, f.Nonce, answer.AccessToken)
}

// exchangeError translates an error of the exchange. Of the provider's answer it has the error's code.
func (p *Provider) exchangeError(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return p.unavailable("its token endpoint", err)
	case answer.ErrorCode == "invalid_client" || answer.ErrorCode == "unauthorized_client":
		return seedbed.Errorf(seedbed.ErrConflict, "the provider %s does not accept this client (%s): compare oidc.client_id and "+
			"oidc.client_secret_file with what it knows", p.config.Issuer, line(answer.ErrorCode))
	case answer.ErrorCode != "":
		return refused("the provider %s refuses the code: %s %s", p.config.Issuer, line(answer.ErrorCode), line(answer.ErrorDescription))
	}
	return p.unavailable("its token endpoint", fmt.Errorf("status %d", answer.Response.StatusCode))
}

// refused returns the error of a sign-in that is not accepted.
func refused(format string, args ...any) error {
	return seedbed.Errorf(seedbed.ErrUnauthenticated, "the sign-in is refused: %s", strings.TrimSpace(fmt.Sprintf(format, args...)))
}
