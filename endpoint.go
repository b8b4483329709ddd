package seedbed

import (
	"net/url"
	"strings"
	"time"
)

// The bounds of an endpoint.
const (
	maxEndpointURL    = 2048
	maxEndpointEvents = 32
	// MaxEndpointKeys is how many keys of a version may sign at the same time.
	MaxEndpointKeys = 4
)

// The versions of Standard Webhooks signatures.
const (
	SignV1  = "v1"  // HMAC-SHA256, with a secret that both sides know
	SignV1a = "v1a" // Ed25519, with a key that only this side knows
)

// SignVersions returns all versions, the default first.
func SignVersions() []string { return []string{SignV1, SignV1a} }

// DisabledByOperator is the Reason of an endpoint that was disabled on request.
const DisabledByOperator = "disabled by the operator"

// Endpoint is a receiver of Seedbed's own webhooks.
type Endpoint struct {
	// Name is the qualified name: see Qualified.
	Name string `json:"name"`
	// Project is the project whose events it receives. That of the default project also receives
	// those of the installation, such as of nodes.
	Project string `json:"project"`
	URL     string `json:"url,omitempty"`
	// Events are the patterns of the event types that it receives.
	Events []string `json:"events"`
	// CloudEvents: the body is a CloudEvent (1.0, structured) rather than Seedbed's own form.
	CloudEvents bool `json:"cloudevents"`
	// AllowPrivate: its address need not be public. It may be private, loopback, link-local or
	// shared.
	AllowPrivate bool `json:"allow_private"`
	// Insecure: plain HTTP is allowed to any address. With AllowPrivate only, it is allowed to
	// addresses that are not public.
	Insecure bool `json:"insecure"`
	Enabled  bool `json:"enabled"`
	// Reason is why it was disabled.
	Reason string `json:"reason,omitempty"`
	// Keys are the keys that sign.
	Keys []EndpointKey `json:"keys"`
	// Failures counts the attempts that failed since the last success. The first of them was at
	// FailingSince. No attempt is made until OpenUntil.
	Failures     int       `json:"failures"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	OpenUntil    time.Time `json:"open_until,omitzero"`
	Created      time.Time `json:"created"`
}

// EndpointKey is one signing key of an endpoint.
type EndpointKey struct {
	ID string `json:"id"`
	// Version is the version of its signatures, one of the Sign constants. Empty means SignV1.
	Version string `json:"version"`
	// Key is the decoded HMAC key, or the seed of an Ed25519 key. It leaves the store only to sign
	// and, for an HMAC key, once when it is made.
	Key []byte `json:"-"`
	// Public is the public key that verifies a SignV1a signature, in text form ("whpk_…"); else
	// empty.
	Public  string    `json:"public_key,omitempty"`
	Created time.Time `json:"created"`
	// Expires is when it stops signing; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// EndpointChange says what to change of an endpoint. A nil field stays.
type EndpointChange struct {
	Enabled      *bool     `json:"enabled,omitempty"`
	URL          *string   `json:"url,omitempty"`
	Events       *[]string `json:"events,omitempty"`
	AllowPrivate *bool     `json:"allow_private,omitempty"`
	Insecure     *bool     `json:"insecure,omitempty"`
}

// Empty reports whether c changes nothing.
func (c EndpointChange) Empty() bool { return c == EndpointChange{} }

// Of returns e with the change applied, except Enabled.
func (c EndpointChange) Of(e Endpoint) Endpoint {
	if c.URL != nil {
		e.URL = *c.URL
	}
	if c.Events != nil {
		e.Events = *c.Events
	}
	if c.AllowPrivate != nil {
		e.AllowPrivate = *c.AllowPrivate
	}
	if c.Insecure != nil {
		e.Insecure = *c.Insecure
	}
	return e
}

// Signs returns the versions of the keys that never expire.
func (e Endpoint) Signs() (versions []string) {
	for _, k := range e.Keys {
		if k.Expires.IsZero() {
			versions = append(versions, k.Version)
		}
	}
	return versions
}

// Check returns ErrInvalid for an endpoint that is not valid.
func (e Endpoint) Check() error {
	if err := CheckQualified("endpoint", e.Project, e.Name); err != nil {
		return err
	}
	if err := e.checkURL(); err != nil {
		return err
	}
	if len(e.Events) == 0 || len(e.Events) > maxEndpointEvents {
		return Errorf(ErrInvalid, "endpoint %q has %d events: expected 1 to %d", e.Name, len(e.Events), maxEndpointEvents)
	}
	for _, p := range e.Events {
		if err := CheckEventPattern(p); err != nil {
			return err
		}
	}
	return nil
}

// checkURL never quotes the URL in an error, because the URL may hold a password.
func (e Endpoint) checkURL() error {
	bad := func(text string) error { return Errorf(ErrInvalid, "the URL of endpoint %q %s", e.Name, text) }
	if len(e.URL) > maxEndpointURL {
		return bad("is too long: expected at most 2048 characters")
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" ||
		strings.ContainsFunc(e.URL, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return bad("is not a URL: expected one such as https://ci.example/hook")
	}
	switch {
	case u.User != nil:
		return bad("has a user or password, which everyone who lists it can see: receivers verify the signature instead")
	case u.Fragment != "":
		return bad("has a fragment, which is never sent")
	case u.Scheme == "http" && !e.Insecure && !e.AllowPrivate:
		return bad("is plain http, which anyone on the way can read: " +
			"expected https, or --allow-private for an address on this network, or --insecure (allow_private and insecure in the API)")
	}
	return nil
}

// Wants reports whether the endpoint receives events of that type.
func (e Endpoint) Wants(eventType string) bool {
	for _, p := range e.Events {
		if MatchEvent(p, eventType) {
			return true
		}
	}
	return false
}
