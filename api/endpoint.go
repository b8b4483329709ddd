package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// Endpoints stores the receivers of Seedbed's own webhooks.
type Endpoints interface {
	CreateEndpoint(ctx context.Context, e seedbed.Endpoint) (seedbed.Endpoint, error)
	Endpoint(ctx context.Context, name string) (seedbed.Endpoint, error)
	Endpoints(ctx context.Context) ([]seedbed.Endpoint, error)
	DeleteEndpoint(ctx context.Context, name string) error
}

// EndpointChanges changes endpoints.
type EndpointChanges interface {
	// ChangeEndpoint changes an endpoint. Deliveries in the outbox stay, in their order.
	ChangeEndpoint(ctx context.Context, name string, change seedbed.EndpointChange) (seedbed.Endpoint, error)
	// RotateEndpointKeys adds keys. The previous keys also sign until overlap has passed.
	RotateEndpointKeys(ctx context.Context, name string, keys []seedbed.EndpointKey, overlap time.Duration) (seedbed.Endpoint, error)
}

// Outbox reads the deliveries to endpoints, and sends them again.
type Outbox interface {
	// OutgoingDeliveries returns at most limit deliveries, newest first. An empty state means all
	// states.
	OutgoingDeliveries(ctx context.Context, endpoint string, state seedbed.OutgoingState, limit int) ([]seedbed.Outgoing, error)
	Resend(ctx context.Context, endpoint, id string) (seedbed.Outgoing, error)
	Replay(ctx context.Context, endpoint string, since time.Time, missedOnly bool) (int, error)
}

// Deliveries tests endpoints.
type Deliveries interface {
	// Test sends one event at once and returns the result.
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

func (r *router) createEndpoint(ctx context.Context, c *fiber.Ctx) error {
	var req wire.EndpointRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	keys, secret, err := r.endpointKeys(req.Sign, req.Secret)
	if err != nil {
		return err
	}
	e, err := r.Store.CreateEndpoint(ctx, seedbed.Endpoint{
		Name: req.Name, URL: req.URL, Events: req.Events, CloudEvents: req.CloudEvents, AllowPrivate: req.AllowPrivate, Insecure: req.Insecure,
		Keys: keys,
	})
	if err != nil {
		return err
	}
	return created(c, "/endpoints/"+e.Name, wire.NewEndpoint{Endpoint: e, Secret: secret})
}

// endpointKeys returns new keys, one for each version, and the shared secret of the version that
// has one.
func (r *router) endpointKeys(versions []string, given string) (keys []seedbed.EndpointKey, secret string, err error) {
	if len(versions) == 0 {
		versions = []string{seedbed.SignV1}
	}
	// A given secret is the key of the only version. With two versions its prefix says which one
	// takes it.
	takes := versions[0]
	if len(versions) > 1 {
		takes = seedbed.SignV1
		if strings.HasPrefix(given, privatePrefix) {
			takes = seedbed.SignV1a
		}
	}
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			return nil, "", invalid("sign: %q comes twice", seedbed.Clip(version))
		}
		text := ""
		if version == takes {
			text = given
		}
		key, told, err := r.SigningKey(version, text)
		if err != nil {
			return nil, "", err
		}
		keys, secret = append(keys, key), secret+told
	}
	return keys, secret, nil
}

// privatePrefix is the prefix of v1a's private keys.
const privatePrefix = "whsk_"

func (r *router) changeEndpoint(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "endpoint")
	if err != nil {
		return err
	}
	var req seedbed.EndpointChange
	if err := receive(c, &req); err != nil {
		return err
	}
	if req.Empty() {
		return invalid("nothing is to change: want some of url, events, allow_private, insecure and enabled")
	}
	e, err := r.Store.ChangeEndpoint(ctx, n, req)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, e)
}

func (r *router) rotateEndpoint(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "endpoint")
	if err != nil {
		return err
	}
	var req wire.EndpointRotation
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
	if len(req.Sign) == 0 {
		e, err := r.Store.Endpoint(ctx, n)
		if err != nil {
			return err
		}
		req.Sign = e.Signs()
	}
	keys, secret, err := r.endpointKeys(req.Sign, req.Secret)
	if err != nil {
		return err
	}
	e, err := r.Store.RotateEndpointKeys(ctx, n, keys, overlap)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, wire.NewEndpoint{Endpoint: e, Secret: secret})
}
