package wire

import (
	"time"

	"seedbed"
)

// EndpointRequest asks for a receiver of Seedbed's own webhooks.
type EndpointRequest struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Events are patterns of event types, such as "job.succeeded" or "instance.*".
	Events []string `json:"events"`
	// CloudEvents asks for CloudEvents 1.0 in the structured mode.
	CloudEvents bool `json:"cloudevents,omitempty"`
	// AllowPrivate lets it have an address that is not public, Insecure a URL of plain HTTP.
	AllowPrivate bool `json:"allow_private,omitempty"`
	Insecure     bool `json:"insecure,omitempty"`
	// Sign are the versions of its signatures, of seedbed.SignVersions; none is v1.
	Sign []string `json:"sign,omitempty"`
	// Secret is the receiver's own, "whsec_…" for v1 or "whsk_…" for v1a; empty draws one.
	Secret string `json:"secret,omitempty"`
}

// NewEndpoint is an endpoint with a secret that was just made.
type NewEndpoint struct {
	Endpoint seedbed.Endpoint `json:"endpoint"`
	// Secret is the signing secret, "whsec_…". It is told this once. An endpoint that
	// signs v1a only has none: what verifies is the Public of a key.
	Secret string `json:"secret,omitempty"`
}

// EndpointRotation is how an endpoint is to get another key.
type EndpointRotation struct {
	// Overlap is how long the keys before it still sign, in nanoseconds; nil is the server's default.
	Overlap *time.Duration `json:"overlap,omitempty"`
	// Sign are the versions to sign from now on; none are those that it signs.
	Sign []string `json:"sign,omitempty"`
	// Secret is as in EndpointRequest.
	Secret string `json:"secret,omitempty"`
}

// EndpointTest is the result of a test of an endpoint.
type EndpointTest struct {
	Delivered bool `json:"delivered"`
	// Status is the answer's; 0 when there was none.
	Status int    `json:"status"`
	Error  string `json:"error"`
	// Took is in nanoseconds.
	Took time.Duration `json:"took"`
}

// ReplayRequest sends again what happened since a time.
type ReplayRequest struct {
	Since time.Time `json:"since"`
	// MissedOnly leaves out what was delivered.
	MissedOnly bool `json:"missed_only"`
}

// Replayed is how many deliveries are on their way again.
type Replayed struct {
	Deliveries int `json:"deliveries"`
}
