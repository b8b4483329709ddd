package rest

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 30 * 24 * time.Hour
)

func (r *router) deleteEndpoint(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "endpoint", r.Store.DeleteEndpoint, endpointTag)
}

func (r *router) endpoint(ctx context.Context, c *fiber.Ctx) error {
	return showTagged(ctx, c, "endpoint", r.Store.Endpoint, endpointTag)
}

// endpointTag returns the entity tag of an endpoint. It does not cover the failures since the last
// success.
func endpointTag(e seedbed.Endpoint) string {
	e.Failures, e.FailingSince, e.OpenUntil = 0, time.Time{}, time.Time{}
	return server.ContentTag(e)
}

func (r *router) createEndpoint(ctx context.Context, c *fiber.Ctx) error {
	var req wire.EndpointRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	name, err := server.CallerOf(c).Qualified("endpoint", req.Name)
	if err != nil {
		return err
	}
	if err := reachable(c, seedbed.Endpoint{AllowPrivate: req.AllowPrivate, Insecure: req.Insecure}); err != nil {
		return err
	}
	keys, secret, err := r.endpointKeys(req.Sign, req.Secret)
	if err != nil {
		return err
	}
	e, err := r.Store.CreateEndpoint(ctx, seedbed.Endpoint{
		Name: name, Project: seedbed.ProjectOf(name), URL: req.URL, Events: req.Events, CloudEvents: req.CloudEvents,
		AllowPrivate: req.AllowPrivate, Insecure: req.Insecure, Keys: keys,
	})
	if err != nil {
		return err
	}
	return server.Created(c, "/endpoints/"+url.PathEscape(e.Name), wire.NewEndpoint{Endpoint: e, Secret: secret})
}

// reachable refuses an endpoint that may reach addresses of this installation's own network, or that
// sends in clear, unless the caller belongs to the default project: deliveries are sent by the control
// hosts.
func reachable(c *fiber.Ctx, e seedbed.Endpoint) error {
	who := server.CallerOf(c)
	if who.Home || !e.AllowPrivate && !e.Insecure {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrForbidden,
		"%s belongs to project %s: only callers from project default make or change endpoints with allow_private or insecure",
		who.Name, who.Project)
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
			return nil, "", server.Invalid("sign: %q is given twice", seedbed.Clip(version))
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
	n, err := server.NameOf(c, "endpoint")
	if err != nil {
		return err
	}
	var req seedbed.EndpointChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req.Empty() {
		return server.Invalid("nothing to change: expected some of url, events, allow_private, insecure and enabled")
	}
	e, err := r.Store.ChangeEndpoint(ctx, n, req, server.IfMatch(c, endpointTag), func(was seedbed.Endpoint) error {
		if req == (seedbed.EndpointChange{Enabled: req.Enabled}) { // it reaches what it did
			return nil
		}
		return reachable(c, req.Of(was))
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, endpointTag(e), e)
}

func (r *router) rotateEndpoint(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "endpoint")
	if err != nil {
		return err
	}
	var req wire.EndpointRotation
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	overlap := defaultOverlap
	if req.Overlap != nil {
		overlap = *req.Overlap
	}
	if overlap < 0 || overlap > maxOverlap {
		return server.Invalid("overlap %s: expected nanoseconds from 0 to %s", overlap, maxOverlap)
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
	e, err := r.Store.RotateEndpointKeys(ctx, n, keys, overlap, server.IfMatch(c, endpointTag))
	if err != nil {
		return err
	}
	return server.Tagged(c, endpointTag(e), wire.NewEndpoint{Endpoint: e, Secret: secret})
}
