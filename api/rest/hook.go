package rest

import (
	"context"
	"net/url"

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
