package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"seedbed"
	"seedbed/api/wire"
)

// AddHook creates a hook and returns its secret. The secret cannot be read again.
func (c *Client) AddHook(ctx context.Context, r wire.HookRequest) (wire.NewHook, error) {
	return post[wire.NewHook](ctx, c, "/hooks", r)
}

// SetHook changes a hook.
func (c *Client) SetHook(ctx context.Context, name string, change wire.HookChange) (seedbed.Hook, error) {
	return patch[seedbed.Hook](ctx, c, at("/hooks", name), change)
}

// RotateHook gives a hook another key. The previous keys are still accepted for the overlap, which
// begins when the new key becomes valid.
func (c *Client) RotateHook(ctx context.Context, name string, key wire.HookKey, overlap time.Duration) (wire.NewHook, error) {
	return post[wire.NewHook](ctx, c, at("/hooks", name)+"/rotate", wire.HookRotation{HookKey: key, Overlap: overlap})
}

// RemoveHookKey removes a key from a hook. Deliveries signed with it are refused from then on.
func (c *Client) RemoveHookKey(ctx context.Context, name, id string) error {
	return c.remove(ctx, at(at("/hooks", name)+"/keys", id))
}

// TestHook reports what a hook would do with a delivery. Non-nil rules replace the hook's own.
// Nothing is created.
func (c *Client) TestHook(ctx context.Context, name string, s seedbed.SampleDelivery, when, mapping *string) (seedbed.DryRun, error) {
	return post[seedbed.DryRun](ctx, c, at("/hooks", name)+"/test", wire.HookTest{SampleDelivery: s, When: when, Mapping: mapping})
}

// Hooks lists the hooks.
func (c *Client) Hooks(ctx context.Context) ([]seedbed.Hook, error) {
	return c.ListHooks(ctx, Selection{})
}

// Hook returns a hook, or seedbed.ErrNotFound.
func (c *Client) Hook(ctx context.Context, name string) (seedbed.Hook, error) {
	return get[seedbed.Hook](ctx, c, at("/hooks", name), nil)
}

// DeleteHook removes a hook. Deliveries to it are refused from then on.
func (c *Client) DeleteHook(ctx context.Context, name string) error {
	return c.remove(ctx, at("/hooks", name))
}

// Deliveries lists the last received deliveries, newest first. An empty hook means all hooks. A max
// of 0 is the server's default.
func (c *Client) Deliveries(ctx context.Context, hook string, max int) ([]seedbed.Delivery, error) {
	path := "/deliveries"
	if hook != "" {
		path = at("/hooks", hook) + "/deliveries"
	}
	return get[[]seedbed.Delivery](ctx, c, path, limit(max))
}

// Rejections lists the counts of deliveries whose sender was not accepted, the latest first. An empty
// hook means all hooks. A max of 0 is the server's default.
func (c *Client) Rejections(ctx context.Context, hook string, max int) ([]seedbed.Rejection, error) {
	q := url.Values{}
	if hook != "" {
		q.Set("hook", hook)
	}
	if max > 0 {
		q.Set("limit", strconv.Itoa(max))
	}
	return get[[]seedbed.Rejection](ctx, c, "/deliveries/rejected", q)
}

// DeliveriesOf lists the deliveries with that ID, of all hooks.
func (c *Client) DeliveriesOf(ctx context.Context, id string) ([]seedbed.Delivery, error) {
	return get[[]seedbed.Delivery](ctx, c, "/deliveries", url.Values{"id": {id}})
}

// Delivery returns one delivery as it was received, or seedbed.ErrNotFound.
func (c *Client) Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error) {
	return get[seedbed.Delivery](ctx, c, deliveryPath(hook, id), nil)
}

// Redeliver processes again a delivery whose payload was kept.
func (c *Client) Redeliver(ctx context.Context, hook, id string) (seedbed.Redelivery, error) {
	return post[seedbed.Redelivery](ctx, c, deliveryPath(hook, id)+"/redeliver", nil)
}

func deliveryPath(hook, id string) string {
	return at("/hooks", hook) + "/deliveries/" + url.PathEscape(id)
}
