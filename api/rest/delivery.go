package rest

import (
	"context"
	"net/url"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

func (r *router) deliveries(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.Limit(c, server.DefaultLimit)
	if err != nil {
		return nil, err
	}
	id := strings.Clone(c.Query("id"))
	switch {
	case id == "":
		return r.Store.Deliveries(ctx, n)
	case len(id) > maxDeliveryID:
		return nil, server.Invalid("id %q: expected the ID of a delivery", seedbed.Clip(id))
	}
	return r.Store.DeliveriesOf(ctx, id, n)
}

// hookDeliveries lists the deliveries to a hook. The hook may have been removed since.
func (r *router) hookDeliveries(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.Limit(c, server.DefaultLimit)
	if err != nil {
		return nil, err
	}
	hook, err := server.NameOf(c, "hook")
	if err != nil {
		return nil, err
	}
	return r.Store.HookDeliveries(ctx, hook, n)
}

// rejections lists the counts of deliveries whose sender was not accepted.
func (r *router) rejections(ctx context.Context, c *fiber.Ctx) (any, error) {
	n, err := server.Limit(c, server.DefaultLimit)
	if err != nil {
		return nil, err
	}
	hook := strings.Clone(c.Query("hook"))
	if hook != "" {
		if err := seedbed.CheckName("hook", hook); err != nil {
			return nil, err
		}
	}
	return r.Store.Rejections(ctx, hook, n)
}

const maxDeliveryID = 256

// deliveryOf reads the hook and the delivery ID from the path.
func deliveryOf(c *fiber.Ctx) (hook, id string, err error) {
	if hook, err = server.NameOf(c, "hook"); err != nil {
		return "", "", err
	}
	id, err = url.PathUnescape(c.Params("id"))
	if err != nil || id == "" || len(id) > maxDeliveryID {
		return "", "", server.Invalid("delivery %q: expected the ID of a delivery", seedbed.Clip(c.Params("id")))
	}
	return hook, id, nil
}

func (r *router) delivery(ctx context.Context, c *fiber.Ctx) error {
	hook, id, err := deliveryOf(c)
	if err != nil {
		return err
	}
	d, err := r.Store.Delivery(ctx, hook, id)
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(d), d)
}

func (r *router) redeliver(ctx context.Context, c *fiber.Ctx) error {
	hook, id, err := deliveryOf(c)
	if err != nil {
		return err
	}
	o, err := r.JobOptions(ctx, c)
	if err != nil {
		return err
	}
	done, err := r.Receiving.Redeliver(ctx, hook, id, o)
	if err != nil {
		return err
	}
	if done.Job != "" {
		c.Set(fiber.HeaderLocation, server.Prefix+"/jobs/"+string(done.Job))
	}
	return server.Reply(c, fiber.StatusAccepted, done)
}
