package seedbed

import (
	"net/netip"
	"time"
)

// Scheme says how a hook's sender proves who it is. It is pinned per hook:
// nothing in a request chooses it.
type Scheme string

// The schemes.
const (
	SchemeStandard     Scheme = "standard"      // Standard Webhooks 1.0.0, v1 (HMAC-SHA256); the default
	SchemeStandardV1a  Scheme = "standard-v1a"  // the same, v1a (Ed25519)
	SchemeGitHub       Scheme = "github"        // X-Hub-Signature-256
	SchemeGitLab       Scheme = "gitlab"        // X-Gitlab-Token, a shared secret in clear
	SchemeGitLabSigned Scheme = "gitlab-signed" // GitLab's signing token: the wire of Standard Webhooks v1
	SchemeStripe       Scheme = "stripe"        // Stripe-Signature
	SchemeSlack        Scheme = "slack"         // X-Slack-Signature, v0
	SchemeGeneric      Scheme = "generic"       // an HMAC that HookForm describes
	SchemeAlertmanager Scheme = "alertmanager"  // a bearer token, or a client certificate
	SchemeNone         Scheme = "none"          // no proof: loopback or a client certificate alone
)

// Schemes are all of them, the default first.
func Schemes() []Scheme {
	return []Scheme{SchemeStandard, SchemeStandardV1a, SchemeGitHub, SchemeGitLab, SchemeGitLabSigned,
		SchemeStripe, SchemeSlack, SchemeGeneric, SchemeAlertmanager, SchemeNone}
}

// The actions that a request may ask for.
const (
	DoCreate = "create" // make an instance and start it
	DoRemove = "remove" // take it away, volumes included
	DoStart  = "start"  // start its domain
	DoStop   = "stop"   // shut its guest down, or switch it off
	DoPlan   = "plan"   // say what create would make, and write nothing

	DoReboot  = "reboot"  // stop it, and start it again
	DoRebuild = "rebuild" // give it fresh disks; its name and addresses stay
)

// Actions are all of them.
func Actions() []string {
	return []string{DoCreate, DoRemove, DoRebuild, DoStart, DoStop, DoReboot, DoPlan}
}

// Hook is a receiver of webhooks.
type Hook struct {
	Name string `json:"name"`
	HookSettings
	// Profiles are the profiles that it may use; empty means any.
	Profiles []string `json:"profiles"`
	// Actions are the actions that it may ask for; empty means create alone.
	Actions []string `json:"actions"`
	// Tolerance is how far a delivery's timestamp may be off, either way.
	Tolerance time.Duration `json:"tolerance"`
	// Keys are what its sender signs with; several while one takes over from another.
	Keys []HookKey `json:"keys"`
	// Declared is true when the configuration file declares it: nothing else may change it.
	Declared bool      `json:"declared"`
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`
}

// HookSettings is how a hook judges what comes.
type HookSettings struct {
	Scheme Scheme `json:"scheme,omitempty"`
	// Form describes the signature of SchemeGeneric; else nil.
	Form *HookForm `json:"form,omitempty"`
	// Insecure is true to allow SchemeNone.
	Insecure bool `json:"insecure,omitempty"`
	// CIDRs are the senders' networks; empty means any.
	CIDRs []netip.Prefix `json:"cidrs,omitempty"`
	// Subjects are names of client certificates, one of which a sender must hold:
	// a DNS or URI subject alternative name, or the common name. Empty asks for none.
	Subjects []string `json:"subjects,omitempty"`
	// Rate is how many deliveries a second it takes, with as many at once; 0 is any number.
	Rate float64 `json:"rate,omitempty"`
	// Concurrency is how many deliveries it works on at the same time; 0 is any number.
	Concurrency int `json:"concurrency,omitempty"`
	// MaxBody is the largest body; 0 is the listener's.
	MaxBody Bytes `json:"max_body,omitzero"`
	// Instances is how many live instances may be of its making; 0 is any number.
	Instances int `json:"instances,omitempty"`
	// Creates is how many instances it may make in an hour; 0 is any number.
	Creates int `json:"creates,omitempty"`
	// Priority is the highest that its jobs may be given; the zero value is PriorityNormal.
	Priority Priority `json:"priority,omitzero"`
	// When is a CEL expression that decides whether a delivery means anything; empty is true.
	When string `json:"when,omitempty"`
	// Mapping is a CEL expression that gives action, name, profile, params and how the
	// job is to be run; empty takes the body for them.
	Mapping string `json:"mapping,omitempty"`
	// KeepPayload keeps the bodies in the history, for redelivery.
	KeepPayload bool `json:"keep_payload,omitempty"`
}

// HookKey is one key of a hook.
type HookKey struct {
	// ID tells the keys of a hook apart.
	ID string `json:"id"`
	// Secret is as the scheme has it: a decoded HMAC key, a public key, or the
	// text of a token. It never leaves the store but to verify and, once, when it is made.
	Secret []byte `json:"-"`
	// NotBefore and NotAfter bound when it counts; zero is no bound.
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
}

// Valid tells whether the key counts at that time.
func (k HookKey) Valid(at time.Time) bool {
	return !at.Before(k.NotBefore) && (k.NotAfter.IsZero() || at.Before(k.NotAfter))
}

// HookForm describes the signature of a generic scheme.
type HookForm struct {
	// SignatureHeader holds Prefix and the MAC; entries are separated by Separator, if that is set.
	SignatureHeader string `json:"signature_header" yaml:"signature_header"`
	Prefix          string `json:"prefix,omitempty" yaml:"prefix"`
	Separator       string `json:"separator,omitempty" yaml:"separator"`
	// Encoding is "hex" (the default) or "base64".
	Encoding string `json:"encoding,omitempty" yaml:"encoding"`
	// Algorithm is "sha256" (the default) or "sha512".
	Algorithm string `json:"algorithm,omitempty" yaml:"algorithm"`
	// Signed is what is signed: text with {timestamp}, {id} and, last, {body}. Default "{body}",
	// with a TimestampHeader "{timestamp}.{body}".
	Signed string `json:"signed,omitempty" yaml:"signed"`
	// TimestampHeader holds Unix seconds; empty when the sender tells no time.
	TimestampHeader string `json:"timestamp_header,omitempty" yaml:"timestamp_header"`
	// IDHeader names the delivery; empty takes the digest of the body.
	IDHeader string `json:"id_header,omitempty" yaml:"id_header"`
}

// Quota bounds what a hook may have made; zero is without bound.
type Quota struct {
	Instances int
	Creates   int
}
