package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) testEndpoint(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.NameOf(c, "endpoint")
	if err != nil {
		return nil, err
	}
	a, err := r.Deliveries.Test(ctx, n)
	if err != nil {
		return nil, err
	}
	return wire.EndpointTest{
		Delivered: a.State == seedbed.OutgoingSent, Status: a.Status, Error: a.Error, Took: a.Took,
	}, nil
}

func (r *router) outgoing(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.NameOf(c, "endpoint")
	if err != nil {
		return nil, err
	}
	most, err := server.Limit(c, server.DefaultLimit)
	if err != nil {
		return nil, err
	}
	state := seedbed.OutgoingState(c.Query("state"))
	switch state {
	case "", seedbed.OutgoingPending, seedbed.OutgoingSent, seedbed.OutgoingDead, seedbed.OutgoingSkipped:
	default:
		return nil, server.Invalid("state %q: expected pending, sent, dead or skipped", seedbed.Clip(string(state)))
	}
	return r.Store.OutgoingDeliveries(ctx, n, state, most)
}

func (r *router) resend(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "endpoint")
	if err != nil {
		return err
	}
	o, err := r.Store.Resend(ctx, n, c.Params("id"))
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusAccepted, o)
}

func (r *router) replay(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "endpoint")
	if err != nil {
		return err
	}
	var req wire.ReplayRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req.Since.IsZero() {
		return server.Invalid("member since is missing: expected a time such as 2026-01-31T12:00:00Z")
	}
	sent, err := r.Store.Replay(ctx, n, req.Since, req.MissedOnly)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusAccepted, wire.Replayed{Deliveries: sent})
}
