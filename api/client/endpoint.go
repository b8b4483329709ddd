package client

import (
	"context"
	"net/http"
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
	// Secret is the signing secret, "whsec_…". It is told this once. Who signs v1a
	// alone has none: what verifies is the Public of a key.
	Secret string `json:"secret"`
}

// AddEndpoint makes an endpoint and tells its secret, this once.
func (c *Client) AddEndpoint(ctx context.Context, r EndpointRequest) (NewEndpoint, error) {
	return post[NewEndpoint](ctx, c, "/endpoints", r)
}

// Endpoints lists the endpoints.
func (c *Client) Endpoints(ctx context.Context) ([]seedbed.Endpoint, error) {
	return get[[]seedbed.Endpoint](ctx, c, "/endpoints", nil)
}

// Endpoint is one endpoint, or seedbed.ErrNotFound.
func (c *Client) Endpoint(ctx context.Context, name string) (seedbed.Endpoint, error) {
	return get[seedbed.Endpoint](ctx, c, at("/endpoints", name), nil)
}

// DeleteEndpoint removes an endpoint and what is on its way to it.
func (c *Client) DeleteEndpoint(ctx context.Context, name string) error {
	return c.remove(ctx, at("/endpoints", name))
}

// SetEndpoint changes an endpoint.
func (c *Client) SetEndpoint(ctx context.Context, name string, change seedbed.EndpointChange) (seedbed.Endpoint, error) {
	var e seedbed.Endpoint
	err := c.do(ctx, call{method: http.MethodPatch, path: at("/endpoints", name), body: change, answer: &e})
	return e, err
}

// EndpointRotation is how an endpoint is to get another key.
type EndpointRotation struct {
	// Overlap is how long the keys before it sign still.
	Overlap time.Duration `json:"overlap"`
	// Sign are the versions to sign from now on; none are those that it signs.
	Sign []string `json:"sign,omitempty"`
	// Secret is as in EndpointRequest.
	Secret string `json:"secret,omitempty"`
}

// RotateEndpoint gives an endpoint a new key, and tells its secret this once.
func (c *Client) RotateEndpoint(ctx context.Context, name string, r EndpointRotation) (NewEndpoint, error) {
	return post[NewEndpoint](ctx, c, at("/endpoints", name)+"/rotate", r)
}

// EndpointTest is what came of a test of an endpoint.
type EndpointTest struct {
	Delivered bool `json:"delivered"`
	// Status is the answer's; 0 when there was none.
	Status int           `json:"status"`
	Error  string        `json:"error"`
	Took   time.Duration `json:"took"`
}

// TestEndpoint sends a test event to an endpoint and tells what came of it.
func (c *Client) TestEndpoint(ctx context.Context, name string) (EndpointTest, error) {
	return post[EndpointTest](ctx, c, at("/endpoints", name)+"/test", nil)
}

// Outgoing lists what was, is and will be sent to an endpoint, newest first: of
// one state unless that is empty. A max of 0 is the server's default.
func (c *Client) Outgoing(ctx context.Context, name string, state seedbed.OutgoingState, max int) ([]seedbed.Outgoing, error) {
	q := limit(max)
	if state != "" {
		if q == nil {
			q = map[string][]string{}
		}
		q.Set("state", string(state))
	}
	return get[[]seedbed.Outgoing](ctx, c, at("/endpoints", name)+"/deliveries", q)
}

// Resend sends one delivery to an endpoint again.
func (c *Client) Resend(ctx context.Context, name, id string) (seedbed.Outgoing, error) {
	return post[seedbed.Outgoing](ctx, c, at(at("/endpoints", name)+"/deliveries", id)+"/resend", nil)
}

// Replay sends again what happened since then, or with missedOnly what of it
// was not delivered, and tells how many deliveries that is.
func (c *Client) Replay(ctx context.Context, name string, since time.Time, missedOnly bool) (int, error) {
	type request struct {
		Since      time.Time `json:"since"`
		MissedOnly bool      `json:"missed_only"`
	}
	answer, err := post[struct {
		Deliveries int `json:"deliveries"`
	}](ctx, c, at("/endpoints", name)+"/replay", request{since, missedOnly})
	return answer.Deliveries, err
}
