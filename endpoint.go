package seedbed

import (
	"encoding/json"
	"net/url"
	"slices"
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

// The types of the events that endpoints receive.
const (
	EventJobAccepted     = "job.accepted"
	EventJobStarted      = "job.started"
	EventJobStage        = "job.stage" // a stage began
	EventJobSucceeded    = "job.succeeded"
	EventJobFailed       = "job.failed"    // it failed; whether it could be undone is the job's state
	EventJobCancelled    = "job.cancelled" // it ended on request
	EventInstanceReady   = "instance.ready"
	EventInstanceRemoved = "instance.removed"
	EventNodeJoined      = "node.joined"       // a control host has joined
	EventNodeLeft        = "node.left"         // a control host is gone for longer than a restart takes
	EventNodeUp          = "node.up"           // the worker of a node answers
	EventNodeDown        = "node.down"         // the worker of a node does not answer
	EventNodeFenced      = "node.fenced"       // a node was switched off, and its instances are started elsewhere
	EventNodeFenceFailed = "node.fence_failed" // it could not be, so nothing is started elsewhere
	// The maintenance of a node was announced, completed or canceled.
	EventMaintenanceAnnounced = "node.maintenance.announced"
	EventMaintenanceCompleted = "node.maintenance.completed"
	EventMaintenanceCanceled  = "node.maintenance.canceled"
	EventCleanupReleased      = "cleanup.released"  // the addresses of an instance whose domain is gone
	EventCleanupFinished      = "cleanup.finished"  // a run that removed something
	EventEndpointDisabled     = "endpoint.disabled" // another endpoint was disabled, on request or because it fails
	// EventJobHook is sent before or after a stage that has a StageHook. Endpoints cannot subscribe
	// to it.
	EventJobHook = "job.hook"
	// EventTest is sent only on request. Endpoints cannot subscribe to it.
	EventTest = "endpoint.test"
)

// eventTypes are the types that an endpoint may subscribe to.
var eventTypes = []string{
	EventJobAccepted, EventJobStarted, EventJobStage, EventJobSucceeded, EventJobFailed, EventJobCancelled,
	EventInstanceReady, EventInstanceRemoved, EventNodeJoined, EventNodeLeft, EventNodeUp,
	EventNodeDown, EventNodeFenced, EventNodeFenceFailed, EventMaintenanceAnnounced, EventMaintenanceCompleted, EventMaintenanceCanceled,
	EventCleanupReleased, EventCleanupFinished, EventEndpointDisabled,
}

// EventTypes returns the types that an endpoint may subscribe to.
func EventTypes() []string { return slices.Clone(eventTypes) }

// CheckEventPattern returns ErrInvalid for a pattern that does not match any event. A pattern is a
// type, the types of one kind such as "job.*", or "*".
func CheckEventPattern(pattern string) error {
	if slices.ContainsFunc(eventTypes, func(t string) bool { return MatchEvent(pattern, t) }) {
		return nil
	}
	return Errorf(ErrInvalid, "event %q is unknown: expected one of %s, all of a kind such as job.*, or *",
		Clip(pattern), strings.Join(eventTypes, ", "))
}

// MatchEvent reports whether pattern matches events of that type.
func MatchEvent(pattern, eventType string) bool {
	if kind, ok := strings.CutSuffix(pattern, ".*"); ok {
		group, _, _ := strings.Cut(eventType, ".")
		return kind == group
	}
	return pattern == "*" || pattern == eventType
}

// OutgoingState is the state of a delivery to an endpoint.
type OutgoingState string

// The states of a delivery.
const (
	OutgoingPending OutgoingState = "pending" // to be sent, or sent again
	OutgoingSent    OutgoingState = "sent"    // answered with 2xx
	OutgoingDead    OutgoingState = "dead"    // the last attempt failed
	OutgoingSkipped OutgoingState = "skipped" // the endpoint was disabled
)

// Outgoing is one event on its way to one endpoint.
type Outgoing struct {
	// ID is the webhook-id, the same at every attempt.
	ID string `json:"id"`
	// Seq grows by one per endpoint, without gaps, in the order of the changes.
	Seq int64 `json:"seq"`
	// Type is one of the Event constants. Subject is the name of the object that the event is
	// about.
	Type    string `json:"type"`
	Subject string `json:"subject"`
	// Data is the JSON object of the event. It does not contain secrets or user-data.
	Data json.RawMessage `json:"data,omitempty"`
	At   time.Time       `json:"at"`

	State    OutgoingState `json:"state"`
	Attempts int           `json:"attempts"`
	// Next is when a pending one is due. Those before it in the order of Seq are sent first.
	Next time.Time `json:"next,omitzero"`
	// Tried is when the last attempt began, and Took how long it took.
	Tried time.Time     `json:"tried,omitzero"`
	Took  time.Duration `json:"took,omitempty"`
	// Status is the HTTP status of the last answer; 0 without one.
	Status int `json:"status,omitempty"`
	// Error is why the last attempt failed; empty otherwise.
	Error string `json:"error,omitempty"`
}

// OutgoingClaim is a delivery that its holder sends, and whose outcome it then writes. A write
// whose epoch is no longer that of the endpoint returns ErrStale.
type OutgoingClaim struct {
	Endpoint Endpoint
	Outgoing Outgoing
	Epoch    int64
}

// Attempt is the outcome of one attempt to deliver, and what follows from it.
type Attempt struct {
	At     time.Time
	Took   time.Duration
	Status int
	Error  string
	// State is sent, dead or pending. A pending one is due again after Retry.
	State OutgoingState
	Retry time.Duration
	// Pause is how long nothing is sent to the endpoint; zero closes its circuit.
	Pause time.Duration
	// Disable is the reason to disable the endpoint; empty leaves it.
	Disable string
}

// OutgoingStats summarizes the deliveries to one endpoint.
type OutgoingStats struct {
	Endpoint string
	Enabled  bool
	// Reason is why it was disabled.
	Reason string
	// Open is true while its circuit is open, so that nothing is sent.
	Open          bool
	Pending, Dead int
	// Oldest is when the oldest pending event happened; zero if none is pending.
	Oldest time.Time
}
