package rest

import (
	"context"
	"strconv"

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

func (r *router) outgoing(ctx context.Context, c *fiber.Ctx) error {
	endpoint, err := server.NameOf(c, "endpoint")
	if err != nil {
		return err
	}
	var q seedbed.OutgoingQuery
	if q.Limit, err = server.Limit(c, server.DefaultLimit); err != nil {
		return err
	}
	if q.State, err = server.OneOf(c, "state", seedbed.OutgoingStates()); err != nil {
		return err
	}
	if q.Since, err = sinceOf(c); err != nil {
		return err
	}
	if q.Before, err = server.Whole(c, "after", 0); err != nil || q.Before < 0 {
		return server.Invalid("after %q: expected the seq of a delivery", seedbed.Clip(c.Query("after")))
	}
	cursor := func(o seedbed.Outgoing) string { return strconv.FormatInt(o.Seq, 10) }
	return server.Page(c, q.Limit, cursor, func(n int) ([]seedbed.Outgoing, error) {
		q.Limit = n
		return r.Store.OutgoingDeliveries(ctx, endpoint, q)
	})
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
