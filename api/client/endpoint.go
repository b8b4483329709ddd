package client

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// AddEndpoint creates an endpoint and returns its secret. The secret cannot be read again.
func (c *Client) AddEndpoint(ctx context.Context, r wire.EndpointRequest) (wire.NewEndpoint, error) {
	return post[wire.NewEndpoint](ctx, c, "/endpoints", r)
}

// Endpoints lists the endpoints.
func (c *Client) Endpoints(ctx context.Context) ([]seedbed.Endpoint, error) {
	return c.ListEndpoints(ctx, Selection{})
}

// Endpoint returns an endpoint, or seedbed.ErrNotFound.
func (c *Client) Endpoint(ctx context.Context, name string) (seedbed.Endpoint, error) {
	return get[seedbed.Endpoint](ctx, c, at("/endpoints", name), nil)
}

// DeleteEndpoint removes an endpoint and its deliveries in the outbox.
func (c *Client) DeleteEndpoint(ctx context.Context, name string) error {
	return c.remove(ctx, at("/endpoints", name))
}

// SetEndpoint changes an endpoint.
func (c *Client) SetEndpoint(ctx context.Context, name string, change seedbed.EndpointChange) (seedbed.Endpoint, error) {
	return patch[seedbed.Endpoint](ctx, c, at("/endpoints", name), change)
}

// RotateEndpoint gives an endpoint a new key and returns its secret. The secret cannot be read
// again.
func (c *Client) RotateEndpoint(ctx context.Context, name string, r wire.EndpointRotation) (wire.NewEndpoint, error) {
	return post[wire.NewEndpoint](ctx, c, at("/endpoints", name)+"/rotate", r)
}

// TestEndpoint sends a test event to an endpoint and returns the result.
func (c *Client) TestEndpoint(ctx context.Context, name string) (wire.EndpointTest, error) {
	return post[wire.EndpointTest](ctx, c, at("/endpoints", name)+"/test", nil)
}

// Outgoing lists the deliveries to an endpoint, newest first. An empty state means all states. A
// max of 0 is the server's default.
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

// Replay sends again the events since a time, or, with missedOnly, only those that were not
// delivered. It returns the number of deliveries.
func (c *Client) Replay(ctx context.Context, name string, since time.Time, missedOnly bool) (int, error) {
	answer, err := post[wire.Replayed](ctx, c, at("/endpoints", name)+"/replay", wire.ReplayRequest{Since: since, MissedOnly: missedOnly})
	return answer.Deliveries, err
}
