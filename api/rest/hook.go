package rest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) hook(ctx context.Context, c *fiber.Ctx) error {
	return showTagged(ctx, c, "hook", r.Store.Hook, server.ContentTag)
}

func (r *router) deleteHook(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "hook", r.Store.DeleteHook, server.ContentTag)
}

func (r *router) createHook(ctx context.Context, c *fiber.Ctx) error {
	var req wire.HookRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	var err error
	if req.Name, err = server.CallerOf(c).Qualified("hook", req.Name); err != nil {
		return err
	}
	h, err := hookOfRequest(req)
	if err != nil {
		return err
	}
	if err := hookWithin(server.CallerOf(c))(h); err != nil {
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
	return server.Created(c, "/hooks/"+url.PathEscape(h.Name), wire.NewHook{Hook: h, Secret: secret})
}

// hookOf returns the hook that the path names.
func (r *router) hookOf(ctx context.Context, c *fiber.Ctx) (seedbed.Hook, error) {
	n, err := server.NameOf(c, "hook")
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
	if err := server.Matches(c, server.ContentTag(h)); err != nil {
		return err
	}
	req := hookRequest(h)
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if (req.Name != h.Name && seedbed.Qualified(h.Project, req.Name) != h.Name) || !req.HookKey.Empty() {
		return server.Invalid("a hook keeps its name, and gets another key by being rotated")
	}
	req.Name = h.Name
	was := h
	if h, err = hookOfRequest(req); err != nil {
		return err
	}
	if err := hookWithin(server.CallerOf(c))(h); err != nil {
		return err
	}
	h.Keys, h.Changed = was.Keys, was.Changed
	if err := r.Receiving.Check(h); err != nil {
		return err
	}
	if h, err = r.Store.UpdateHook(ctx, h, server.IfMatch(c, server.ContentTag[seedbed.Hook])); err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(h), h)
}

func (r *router) testHook(ctx context.Context, c *fiber.Ctx) (any, error) {
	var req wire.HookTest
	if err := server.Receive(c, &req); err != nil {
		return nil, err
	}
	h, err := r.hookOf(ctx, c)
	if err != nil {
		return nil, err
	}
	if req.When != nil {
		h.When = *req.When
	}
	if req.Mapping != nil {
		h.Mapping = *req.Mapping
	}
	return r.Receiving.DryRun(ctx, h, req.SampleDelivery)
}

// hookKey returns the requested key, and the text of its secret if that was generated.
func (r *router) hookKey(h seedbed.HookSettings, req wire.HookKey) (key seedbed.HookKey, secret string, err error) {
	key = seedbed.HookKey{ID: req.ID, NotBefore: req.NotBefore.UTC(), NotAfter: req.NotAfter.UTC()}
	if key.ID == "" {
		key.ID = "k" + strings.ToLower(rand.Text()[:6])
	}
	switch now := time.Now(); {
	case key.NotAfter.IsZero():
	case !key.NotAfter.After(now):
		return key, "", server.Invalid(
			"not_after %s: the key would never be valid: expected a time in the future", key.NotAfter.Format(time.RFC3339))
	case !key.NotAfter.After(key.NotBefore):
		return key, "", server.Invalid("not_after %s: expected a time after not_before, %s",
			key.NotAfter.Format(time.RFC3339), key.NotBefore.Format(time.RFC3339))
	}
	if err := seedbed.CheckName("key", key.ID); err != nil {
		return key, "", err
	}
	if req.Secret != "" {
		key.Secret, err = r.Receiving.ParseKey(h, req.Secret)
		return key, "", err
	}
	key.Secret, secret, err = r.Receiving.NewKey(h)
	return key, secret, err
}

func (r *router) rotateHook(ctx context.Context, c *fiber.Ctx) error {
	req := wire.HookRotation{Overlap: defaultOverlap}
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req.Overlap < 0 || req.Overlap > maxOverlap {
		return server.Invalid("overlap %s: expected nanoseconds from 0s to %s", req.Overlap, maxOverlap)
	}
	h, err := r.hookOf(ctx, c)
	if err != nil {
		return err
	}
	key, secret, err := r.hookKey(h.HookSettings, req.HookKey)
	if err != nil {
		return err
	}
	h, err = r.Store.RotateHook(ctx, h.Name, key, req.Overlap,
		server.IfMatch(c, server.ContentTag[seedbed.Hook]), hookWithin(server.CallerOf(c)))
	if err != nil {
		return err
	}
	return server.Tagged(c, server.ContentTag(h), wire.NewHook{Hook: h, Secret: secret})
}

// removeHookKey removes a key at once. It refuses if the hook would then be unusable or accept
// unauthenticated deliveries.
func (r *router) removeHookKey(ctx context.Context, c *fiber.Ctx) error {
	return drop(ctx, c, "hook", func(ctx context.Context, hook string) error {
		_, err := r.Store.RemoveHookKey(ctx, hook, c.Params("id"), func(was, left seedbed.Hook) error {
			if err := server.Matches(c, server.ContentTag(was)); err != nil {
				return err
			}
			if err := r.Receiving.CheckKeys(left); err != nil {
				return seedbed.Errorf(seedbed.ErrConflict,
					"it is the last key of hook %q, and without it: %v: rotate it, or delete the hook", hook, err)
			}
			return nil
		})
		return err
	})
}
