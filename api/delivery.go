package api

import (
	"context"
	"net/url"

	"seedbed"

	"github.com/gofiber/fiber/v2"
)

// Received is the history of received webhooks.
type Received interface {
	// Deliveries returns at most limit deliveries, newest first, without payloads.
	Deliveries(ctx context.Context, limit int) ([]seedbed.Delivery, error)
	HookDeliveries(ctx context.Context, hook string, limit int) ([]seedbed.Delivery, error)
	// Delivery returns one delivery, with its payload if that was kept.
	Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error)
}

func (r *router) deliveries(ctx context.Context, c *fiber.Ctx) error {
	n, err := limit(c, defaultLimit)
	if err != nil {
		return err
	}
	return list(ctx, c, func(ctx context.Context) ([]seedbed.Delivery, error) { return r.Store.Deliveries(ctx, n) })
}

// hookDeliveries lists the deliveries to a hook. The hook may have been removed since.
func (r *router) hookDeliveries(ctx context.Context, c *fiber.Ctx) error {
	n, err := limit(c, defaultLimit)
	if err != nil {
		return err
	}
	hook, err := name(c, "hook")
	if err != nil {
		return err
	}
	return list(ctx, c, func(ctx context.Context) ([]seedbed.Delivery, error) { return r.Store.HookDeliveries(ctx, hook, n) })
}

const maxDeliveryID = 256

// deliveryOf reads the hook and the delivery ID from the path.
func deliveryOf(c *fiber.Ctx) (hook, id string, err error) {
	if hook, err = name(c, "hook"); err != nil {
		return "", "", err
	}
	id, err = url.PathUnescape(c.Params("id"))
	if err != nil || id == "" || len(id) > maxDeliveryID {
		return "", "", invalid("delivery %q: want the id of one", seedbed.Clip(c.Params("id")))
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
	return reply(c, fiber.StatusOK, d)
}

func (r *router) redeliver(ctx context.Context, c *fiber.Ctx) error {
	hook, id, err := deliveryOf(c)
	if err != nil {
		return err
	}
	done, err := r.Receiving.Redeliver(ctx, hook, id)
	if err != nil {
		return err
	}
	if done.Job != "" {
		c.Set(fiber.HeaderLocation, prefix+"/jobs/"+string(done.Job))
	}
	return reply(c, fiber.StatusAccepted, done)
}
