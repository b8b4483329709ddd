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
	SignV1a = "v1a" // Ed25519, with a key that this side alone knows
)

// SignVersions are all of them, the default first.
func SignVersions() []string { return []string{SignV1, SignV1a} }

// DisabledByOperator is the Reason of an endpoint that was disabled on request.
const DisabledByOperator = "disabled by the operator"

// Endpoint is a receiver of Seedbed's own webhooks.
type Endpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Events are the patterns of the event types that it is told.
	Events []string `json:"events"`
	// CloudEvents: the body is a CloudEvent (1.0, structured) rather than Seedbed's own form.
	CloudEvents bool `json:"cloudevents"`
	// AllowPrivate: it may have an address that is not public: private, loopback, link-local, shared.
	AllowPrivate bool `json:"allow_private"`
	// Insecure: plain HTTP is allowed wherever it is. With AllowPrivate alone it
	// is to addresses that are not public.
	Insecure bool `json:"insecure"`
	Enabled  bool `json:"enabled"`
	// Reason is why it was disabled.
	Reason string `json:"reason,omitempty"`
	// Keys are those that sign.
	Keys []EndpointKey `json:"keys"`
	// Failures counts the attempts that failed since the last success, the
	// first of which was at FailingSince; until OpenUntil there is none.
	Failures     int       `json:"failures"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	OpenUntil    time.Time `json:"open_until,omitzero"`
	Created      time.Time `json:"created"`
}

// EndpointKey is one signing key of an endpoint.
type EndpointKey struct {
	ID string `json:"id"`
	// Version is what it signs: one of the Sign constants. Empty is SignV1.
	Version string `json:"version"`
	// Key is the decoded HMAC key, or the seed of an Ed25519 key. It never leaves
	// the store but to sign and, an HMAC key, once when it is made.
	Key []byte `json:"-"`
	// Public is what verifies a SignV1a, as people copy it ("whpk_…"); else empty.
	Public  string    `json:"public_key,omitempty"`
	Created time.Time `json:"created"`
	// Expires is when it stops signing; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// EndpointChange is what is to change of an endpoint; nil stays.
type EndpointChange struct {
	Enabled      *bool     `json:"enabled,omitempty"`
	URL          *string   `json:"url,omitempty"`
	Events       *[]string `json:"events,omitempty"`
	AllowPrivate *bool     `json:"allow_private,omitempty"`
	Insecure     *bool     `json:"insecure,omitempty"`
}

// Empty tells whether nothing is to change.
func (c EndpointChange) Empty() bool { return c == EndpointChange{} }

// Of is e as the change makes it, but for whether it is enabled.
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

// Signs are the versions of the keys that do not end.
func (e Endpoint) Signs() (versions []string) {
	for _, k := range e.Keys {
		if k.Expires.IsZero() {
			versions = append(versions, k.Version)
		}
	}
	return versions
}

// Check refuses, with ErrInvalid, an endpoint that cannot be.
func (e Endpoint) Check() error {
	if err := CheckName("endpoint", e.Name); err != nil {
		return err
	}
	if err := e.checkURL(); err != nil {
		return err
	}
	if len(e.Events) == 0 || len(e.Events) > maxEndpointEvents {
		return Errorf(ErrInvalid, "endpoint %q has %d events: want 1 to %d", e.Name, len(e.Events), maxEndpointEvents)
	}
	for _, p := range e.Events {
		if err := CheckEventPattern(p); err != nil {
			return err
		}
	}
	return nil
}

// checkURL quotes no URL: it may hold a password where none belongs.
func (e Endpoint) checkURL() error {
	bad := func(text string) error { return Errorf(ErrInvalid, "the URL of endpoint %q %s", e.Name, text) }
	if len(e.URL) > maxEndpointURL {
		return bad("is too long: want at most 2048 characters")
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" ||
		strings.ContainsFunc(e.URL, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return bad("is none: want one such as https://ci.example/hook")
	}
	switch {
	case u.User != nil:
		return bad("holds a user or password, which everybody sees who lists it: what proves who sends is the signature")
	case u.Fragment != "":
		return bad("has a fragment, which is never sent")
	case u.Scheme == "http" && !e.Insecure && !e.AllowPrivate:
		return bad("is plain http, where everybody on the way reads along: want https, or allow_private for an address on this network, or insecure")
	}
	return nil
}

// Wants tells whether the endpoint is to be told events of that type.
func (e Endpoint) Wants(eventType string) bool {
	for _, p := range e.Events {
		if MatchEvent(p, eventType) {
			return true
		}
	}
	return false
}
