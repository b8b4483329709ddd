package wire

import (
	"time"

	"seedbed"
)

// EndpointRequest creates a receiver of Seedbed's own webhooks.
type EndpointRequest struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Events are patterns of event types, such as "job.succeeded" or "instance.*".
	Events []string `json:"events"`
	// CloudEvents asks for CloudEvents 1.0 in the structured mode.
	CloudEvents bool `json:"cloudevents,omitempty"`
	// AllowPrivate permits an address that is not public. Insecure permits a URL of plain HTTP.
	AllowPrivate bool `json:"allow_private,omitempty"`
	Insecure     bool `json:"insecure,omitempty"`
	// Sign holds the versions of its signatures, from seedbed.SignVersions. Empty means v1.
	Sign []string `json:"sign,omitempty"`
	// Secret is the receiver's own secret: "whsec_…" for v1 or "whsk_…" for v1a. If it is empty,
	// the server generates one.
	Secret string `json:"secret,omitempty"`
}

// NewEndpoint is an endpoint with a new secret.
type NewEndpoint struct {
	Endpoint seedbed.Endpoint `json:"endpoint"`
	// Secret is the signing secret, "whsec_…". It cannot be read again. An endpoint that signs only
	// with v1a has none; the Public of a key verifies its signatures.
	Secret string `json:"secret,omitempty"`
}

// EndpointRotation gives an endpoint another key.
type EndpointRotation struct {
	// Overlap is how long the previous keys still sign, in nanoseconds. Nil is the server's
	// default.
	Overlap *time.Duration `json:"overlap,omitempty"`
	// Sign holds the versions to sign with from now on. Empty leaves them unchanged.
	Sign []string `json:"sign,omitempty"`
	// Secret is as in EndpointRequest.
	Secret string `json:"secret,omitempty"`
}

// EndpointTest is the result of a test of an endpoint.
type EndpointTest struct {
	Delivered bool `json:"delivered"`
	// Status is the answer's status, or 0 without an answer.
	Status int    `json:"status"`
	Error  string `json:"error"`
	// Took is in nanoseconds.
	Took time.Duration `json:"took"`
}

// ReplayRequest sends again the events since a time.
type ReplayRequest struct {
	Since time.Time `json:"since"`
	// MissedOnly leaves out the events that were delivered.
	MissedOnly bool `json:"missed_only"`
}

// Replayed is how many deliveries are in the outbox again.
type Replayed struct {
	Deliveries int `json:"deliveries"`
}
