package client

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"seedbed"
)

// HookRequest asks for a receiver of webhooks.
type HookRequest struct {
	Name string `json:"name"`
	seedbed.HookSettings
	HookKey
	// Profiles are those that it may use; empty means any.
	Profiles []string `json:"profiles"`
	// Actions are those that it may ask for; empty means create alone.
	Actions []string `json:"actions"`
	// Tolerance is how far a delivery's timestamp may be off; zero means the server's default.
	Tolerance time.Duration `json:"tolerance"`
}

// HookKey is a key that a hook is to have.
type HookKey struct {
	// Secret is the secret that the sender has; empty has the server draw one.
	Secret string `json:"secret,omitempty"`
	// ID tells it from the hook's others; empty has the server draw one.
	ID string `json:"key_id,omitempty"`
	// NotBefore and NotAfter bound when it counts; zero is no bound.
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
}

// HookChange is what is to change of a hook; nil stays.
type HookChange struct {
	Form        *seedbed.HookForm `json:"form,omitempty"`
	CIDRs       *[]netip.Prefix   `json:"cidrs,omitempty"`
	Subjects    *[]string         `json:"subjects,omitempty"`
	Rate        *float64          `json:"rate,omitempty"`
	Concurrency *int              `json:"concurrency,omitempty"`
	MaxBody     *seedbed.Bytes    `json:"max_body,omitempty"`
	Instances   *int              `json:"instances,omitempty"`
	Creates     *int              `json:"creates,omitempty"`
	Priority    *seedbed.Priority `json:"priority,omitempty"`
	When        *string           `json:"when,omitempty"`
	Mapping     *string           `json:"mapping,omitempty"`
	KeepPayload *bool             `json:"keep_payload,omitempty"`
	Profiles    *[]string         `json:"profiles,omitempty"`
	Actions     *[]string         `json:"actions,omitempty"`
	Tolerance   *time.Duration    `json:"tolerance,omitempty"`
}

// NewHook is a hook that was just made, or has a new key.
type NewHook struct {
	Hook seedbed.Hook `json:"hook"`
	// Secret is the secret that the server drew, such as "whsec_…". It is told this once.
	Secret string `json:"secret"`
}

// AddHook makes a hook and tells its secret, this once.
func (c *Client) AddHook(ctx context.Context, r HookRequest) (NewHook, error) {
	return post[NewHook](ctx, c, "/hooks", r)
}

// SetHook changes a hook.
func (c *Client) SetHook(ctx context.Context, name string, change HookChange) (seedbed.Hook, error) {
	var h seedbed.Hook
	err := c.do(ctx, call{method: http.MethodPatch, path: at("/hooks", name), body: change, answer: &h})
	return h, err
}

// RotateHook gives a hook another key. Those before it count for the overlap
// still, which begins when that one does.
func (c *Client) RotateHook(ctx context.Context, name string, key HookKey, overlap time.Duration) (NewHook, error) {
	return post[NewHook](ctx, c, at("/hooks", name)+"/rotate", struct {
		HookKey
		Overlap time.Duration `json:"overlap"`
	}{key, overlap})
}

// RemoveHookKey takes a key from a hook; what is signed with it is refused from then on.
func (c *Client) RemoveHookKey(ctx context.Context, name, id string) error {
	return c.remove(ctx, at(at("/hooks", name)+"/keys", id))
}

// TestHook tells what a hook would make of a delivery, with its own rules or,
// where they are not nil, with those. Nothing is made.
func (c *Client) TestHook(ctx context.Context, name string, s seedbed.Sample, when, mapping *string) (seedbed.Trial, error) {
	return post[seedbed.Trial](ctx, c, at("/hooks", name)+"/test", struct {
		seedbed.Sample
		When    *string `json:"when,omitempty"`
		Mapping *string `json:"mapping,omitempty"`
	}{s, when, mapping})
}

// Hooks lists the hooks.
func (c *Client) Hooks(ctx context.Context) ([]seedbed.Hook, error) {
	return get[[]seedbed.Hook](ctx, c, "/hooks", nil)
}

// Hook is one hook, or seedbed.ErrNotFound.
func (c *Client) Hook(ctx context.Context, name string) (seedbed.Hook, error) {
	return get[seedbed.Hook](ctx, c, at("/hooks", name), nil)
}

// DeleteHook removes a hook; what was signed with its key is refused from then on.
func (c *Client) DeleteHook(ctx context.Context, name string) error {
	return c.remove(ctx, at("/hooks", name))
}

// Deliveries lists the last webhooks, newest first; of one hook unless that is
// empty; a max of 0 is the server's default.
func (c *Client) Deliveries(ctx context.Context, hook string, max int) ([]seedbed.Delivery, error) {
	path := "/deliveries"
	if hook != "" {
		path = at("/hooks", hook) + "/deliveries"
	}
	return get[[]seedbed.Delivery](ctx, c, path, limit(max))
}

// Delivery is one webhook as it was received, or seedbed.ErrNotFound.
func (c *Client) Delivery(ctx context.Context, hook, id string) (seedbed.Delivery, error) {
	return get[seedbed.Delivery](ctx, c, deliveryPath(hook, id), nil)
}

// Redeliver puts a webhook whose payload was kept through again.
func (c *Client) Redeliver(ctx context.Context, hook, id string) (seedbed.Redelivery, error) {
	return post[seedbed.Redelivery](ctx, c, deliveryPath(hook, id)+"/redeliver", nil)
}

func deliveryPath(hook, id string) string {
	return at("/hooks", hook) + "/deliveries/" + url.PathEscape(id)
}
