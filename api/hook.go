package api

import (
	"context"
	"time"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// Hooks stores the receivers of signed webhooks.
type Hooks interface {
	CreateHook(ctx context.Context, h seedbed.Hook) (seedbed.Hook, error)
	Hook(ctx context.Context, name string) (seedbed.Hook, error)
	Hooks(ctx context.Context) ([]seedbed.Hook, error)
	DeleteHook(ctx context.Context, name string) error
}

// HookChanges changes hooks. Its methods return ErrConflict for a hook that the configuration
// declares.
type HookChanges interface {
	// UpdateHook changes everything except scheme and keys. It returns ErrConflict if the hook was
	// changed after h.Changed.
	UpdateHook(ctx context.Context, h seedbed.Hook) (seedbed.Hook, error)
	// RotateHook adds a key. The previous keys are accepted until overlap has passed.
	RotateHook(ctx context.Context, name string, key seedbed.HookKey, overlap time.Duration) (seedbed.Hook, error)
	// RemoveHookKey removes a key if check accepts the hook without it.
	RemoveHookKey(ctx context.Context, name, id string, check func(seedbed.Hook) error) (seedbed.Hook, error)
}

// Receiving holds the functions of the webhook receiver that the API needs. All are required.
type Receiving struct {
	// Check returns ErrInvalid for a hook that could not work or would accept unauthenticated
	// deliveries.
	Check func(h seedbed.Hook) error
	// CheckKeys is the part of Check that checks whether the keys are enough.
	CheckKeys func(h seedbed.Hook) error
	// NewKey generates a secret for a scheme, and the text that operators copy. It returns
	// ErrInvalid if the sender generates the secret.
	NewKey func(h seedbed.HookSettings) (key []byte, secret string, err error)
	// ParseKey reads a secret in the form that operators copy.
	ParseKey func(h seedbed.HookSettings, secret string) ([]byte, error)
	// DryRun reports what a hook would do with a delivery.
	DryRun func(ctx context.Context, h seedbed.Hook, s seedbed.SampleDelivery) (seedbed.DryRun, error)
	// Redeliver processes a delivery of the history again.
	Redeliver func(ctx context.Context, hook, id string) (seedbed.Redelivery, error)
}

func (r *router) hooks(ctx context.Context, c *fiber.Ctx) error { return list(ctx, c, r.Store.Hooks) }

func (r *router) hook(ctx context.Context, c *fiber.Ctx) error {
	return show(ctx, c, "hook", r.Store.Hook, contentTag)
}

func (r *router) deleteHook(ctx context.Context, c *fiber.Ctx) error {
	if err := unchanged(ctx, c, "hook", r.Store.Hook, contentTag); err != nil {
		return err
	}
	return drop(ctx, c, "hook", r.Store.DeleteHook)
}

func (r *router) createHook(ctx context.Context, c *fiber.Ctx) error {
	var req wire.HookRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	h, err := hookOfRequest(req)
	if err != nil {
		return err
	}
	var secret string
	if keyed(req) {
		var key seedbed.HookKey
		if key, secret, err = r.hookKey(h.HookSettings, req.HookKey); err != nil {
			return err
		}
		h.Keys = []seedbed.HookKey{key}
	}
	if err := r.Receiving.Check(h); err != nil {
		return err
	}
	if h, err = r.Store.CreateHook(ctx, h); err != nil {
		return err
	}
	return created(c, "/hooks/"+h.Name, wire.NewHook{Hook: h, Secret: secret})
}

// hookOf returns the hook that the path names.
func (r *router) hookOf(ctx context.Context, c *fiber.Ctx) (seedbed.Hook, error) {
	n, err := name(c, "hook")
	if err != nil {
		return seedbed.Hook{}, err
	}
	return r.Store.Hook(ctx, n)
}

// changeHook changes the fields that the body has, and leaves the rest.
func (r *router) changeHook(ctx context.Context, c *fiber.Ctx) error {
	h, err := r.hookOf(ctx, c)
	if err != nil {
		return err
	}
	if err := matches(c, contentTag(h)); err != nil {
		return err
	}
	req := hookRequest(h)
	if err := receive(c, &req); err != nil {
		return err
	}
	if req.Name != h.Name || !req.HookKey.Empty() {
		return invalid("a hook keeps its name, and gets another key by being rotated")
	}
	keys, changed := h.Keys, h.Changed
	if h, err = hookOfRequest(req); err != nil {
		return err
	}
	h.Keys, h.Changed = keys, changed
	if err := r.Receiving.Check(h); err != nil {
		return err
	}
	if h, err = r.Store.UpdateHook(ctx, h); err != nil {
		return err
	}
	return tagged(c, contentTag(h), h)
}

func (r *router) testHook(ctx context.Context, c *fiber.Ctx) error {
	var req wire.HookTest
	if err := receive(c, &req); err != nil {
		return err
	}
	h, err := r.hookOf(ctx, c)
	if err != nil {
		return err
	}
	if req.When != nil {
		h.When = *req.When
	}
	if req.Mapping != nil {
		h.Mapping = *req.Mapping
	}
	t, err := r.Receiving.DryRun(ctx, h, req.SampleDelivery)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, t)
}
