package api

import (
	"context"
	"time"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Endpoints are the receivers of Seedbed's own webhooks.
type Endpoints interface {
	CreateEndpoint(ctx context.Context, e seedbed.Endpoint) (seedbed.Endpoint, error)
	Endpoint(ctx context.Context, name string) (seedbed.Endpoint, error)
	Endpoints(ctx context.Context) ([]seedbed.Endpoint, error)
	DeleteEndpoint(ctx context.Context, name string) error
}

// EndpointChanges are what may change of an endpoint.
type EndpointChanges interface {
	SetEndpointEnabled(ctx context.Context, name string, enabled bool) (seedbed.Endpoint, error)
	// RotateEndpointKey adds a key; those before it sign for the overlap still.
	RotateEndpointKey(ctx context.Context, name string, key []byte, overlap time.Duration) (seedbed.Endpoint, error)
}

// Outbox is what is on its way to endpoints.
type Outbox interface {
	// OutgoingDeliveries gives at most limit, newest first; an empty state means all.
	OutgoingDeliveries(ctx context.Context, endpoint string, state seedbed.OutgoingState, limit int) ([]seedbed.Outgoing, error)
	Resend(ctx context.Context, endpoint, id string) (seedbed.Outgoing, error)
	Replay(ctx context.Context, endpoint string, since time.Time, missedOnly bool) (int, error)
}

// Deliveries tests endpoints.
type Deliveries interface {
	// Test sends one event at once and tells what came of it.
	Test(ctx context.Context, endpoint string) (seedbed.Attempt, error)
}

const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 30 * 24 * time.Hour
)

func (r *router) endpoints(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.Store.Endpoints)
}

func (r *router) endpoint(ctx context.Context, c *fiber.Ctx) error {
	return show(ctx, c, "endpoint", r.Store.Endpoint)
}

func (r *router) deleteEndpoint(ctx context.Context, c *fiber.Ctx) error {
	return drop(ctx, c, "endpoint", r.Store.DeleteEndpoint)
}

type endpointRequest struct {
	Name         string   `json:"name"`
	URL          string   `json:"url"`
	Events       []string `json:"events"`
	CloudEvents  bool     `json:"cloudevents"`
	AllowPrivate bool     `json:"allow_private"`
	Insecure     bool     `json:"insecure"`
	// Secret is the receiver's own; empty draws one.
	Secret string `json:"secret"`
}

// newEndpoint is an answer that holds a secret, this once.
type newEndpoint struct {
	Endpoint seedbed.Endpoint `json:"endpoint"`
	Secret   string           `json:"secret"`
}

func (r *router) createEndpoint(ctx context.Context, c *fiber.Ctx) error {
	var req endpointRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	key, secret, err := r.secret(req.Secret)
	if err != nil {
		return err
	}
	e, err := r.Store.CreateEndpoint(ctx, seedbed.Endpoint{
		Name: req.Name, URL: req.URL, Events: req.Events, CloudEvents: req.CloudEvents, AllowPrivate: req.AllowPrivate, Insecure: req.Insecure,
		Keys: []seedbed.EndpointKey{{Key: key}},
	})
	if err != nil {
		return err
	}
	return created(c, "/endpoints/"+e.Name, newEndpoint{e, secret})
}

// secret is the given one, or a new one.
func (r *router) secret(given string) (key []byte, secret string, err error) {
	if given == "" {
		key, secret = r.NewSecret()
		return key, secret, nil
	}
	key, err = r.ParseSecret(given)
	return key, given, err
}

type endpointChange struct {
	Enabled *bool `json:"enabled"`
}

func (r *router) changeEndpoint(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "endpoint")
	if err != nil {
		return err
	}
	var req endpointChange
	if err := receive(c, &req); err != nil {
		return err
	}
	if req.Enabled == nil {
		return invalid("member enabled is missing: want true or false")
	}
	e, err := r.Store.SetEndpointEnabled(ctx, n, *req.Enabled)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, e)
}

type rotation struct {
	// Overlap is how long the keys before it go on signing; absent for the default.
	Overlap *time.Duration `json:"overlap"`
	Secret  string         `json:"secret"`
}

func (r *router) rotateEndpoint(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "endpoint")
	if err != nil {
		return err
	}
	var req rotation
	if err := receive(c, &req); err != nil {
		return err
	}
	overlap := defaultOverlap
	if req.Overlap != nil {
		overlap = *req.Overlap
	}
	if overlap < 0 || overlap > maxOverlap {
		return invalid("overlap %s: want nanoseconds that are 0 to %s", overlap, maxOverlap)
	}
	key, secret, err := r.secret(req.Secret)
	if err != nil {
		return err
	}
	e, err := r.Store.RotateEndpointKey(ctx, n, key, overlap)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, newEndpoint{e, secret})
}
