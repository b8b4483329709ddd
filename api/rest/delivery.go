package rest

import (
	"context"
	"net/url"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// deliveries lists what was received, of all hooks or of the one that the query names.
func (r *router) deliveries(ctx context.Context, c *fiber.Ctx) error {
	hook, err := hookQuery(c)
	if err != nil {
		return err
	}
	return r.deliveriesTo(ctx, c, hook)
}

// hookDeliveries lists the deliveries to a hook. The hook may have been removed since.
func (r *router) hookDeliveries(ctx context.Context, c *fiber.Ctx) error {
	hook, err := server.NameOf(c, "hook")
	if err != nil {
		return err
	}
	return r.deliveriesTo(ctx, c, hook)
}

// hookQuery reads the hook that the query names.
func hookQuery(c *fiber.Ctx) (string, error) {
	hook := strings.Clone(c.Query("hook"))
	if hook == "" {
		return "", nil
	}
	return server.CallerOf(c).Qualified("hook", hook)
}

// hooksProject returns the project whose hooks a list of deliveries is about, or an empty string if it is
// about all, or about one hook, which the caller sees.
func hooksProject(c *fiber.Ctx, hook string) (string, error) {
	in, err := server.ScopeOf(c)
	if err != nil || hook != "" {
		return "", err
	}
	project, _ := in.One()
	return project, nil
}

func (r *router) deliveriesTo(ctx context.Context, c *fiber.Ctx, hook string) error {
	project, err := hooksProject(c, hook)
	if err != nil {
		return err
	}
	q := seedbed.DeliveryQuery{Project: project, Hook: strings.Clone(hook), ID: strings.Clone(c.Query("id"))}
	if len(q.ID) > maxDeliveryID {
		return server.Invalid("id %q: expected the ID of a delivery", seedbed.Clip(q.ID))
	}
	if q.Limit, err = server.Limit(c, server.DefaultLimit); err != nil {
		return err
	}
	if q.Decision, err = server.OneOf(c, "decision", seedbed.Decisions()); err != nil {
		return err
	}
	if q.Since, err = sinceOf(c); err != nil {
		return err
	}
	after, err := partsOf(c, "delivery", 3)
	if err != nil {
		return err
	}
	if after != nil {
		q.After = seedbed.Delivery{Received: after.at, Hook: after.parts[0], ID: after.parts[1]}
	}
	cursor := func(d seedbed.Delivery) string { return cursorOf(d.Received, d.Hook, d.ID) }
	return server.Page(c, q.Limit, cursor, func(n int) ([]seedbed.Delivery, error) {
		q.Limit = n
		return r.Store.Deliveries(ctx, q)
	})
}

// rejections lists the counts of deliveries whose sender was not accepted.
func (r *router) rejections(ctx context.Context, c *fiber.Ctx) (err error) {
	var q seedbed.RejectionQuery
	if q.Limit, err = server.Limit(c, server.DefaultLimit); err != nil {
		return err
	}
	if q.Hook, err = hookQuery(c); err != nil {
		return err
	}
	if q.Project, err = hooksProject(c, q.Hook); err != nil {
		return err
	}
	if q.Since, err = sinceOf(c); err != nil {
		return err
	}
	after, err := partsOf(c, "rejection", 4)
	if err != nil {
		return err
	}
	if after != nil {
		q.After = seedbed.Rejection{Last: after.at, Hook: after.parts[0], Peer: after.parts[1], Reason: after.parts[2]}
	}
	cursor := func(v seedbed.Rejection) string { return cursorOf(v.Last, v.Hook, v.Peer, v.Reason) }
	return server.Page(c, q.Limit, cursor, func(n int) ([]seedbed.Rejection, error) {
		q.Limit = n
		return r.Store.Rejections(ctx, q)
	})
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
	h, err := r.Store.Hook(ctx, hook)
	if err == nil { // it does so again in the hook's name
		err = hookWithin(server.CallerOf(c))(h)
	}
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
