package api

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// list answers the objects that f reads.
func list[T any](ctx context.Context, c *fiber.Ctx, f func(context.Context) ([]T, error)) error {
	all, err := f(ctx)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, all)
}

// show answers the object that the path names. It sets an ETag if tag is given.
func show[T any](ctx context.Context, c *fiber.Ctx, kind string, f func(context.Context, string) (T, error), tag ...func(T) string) error {
	n, err := name(c, kind)
	if err != nil {
		return err
	}
	v, err := f(ctx, n)
	if err != nil {
		return err
	}
	if len(tag) > 0 {
		return tagged(c, tag[0](v), v)
	}
	return reply(c, fiber.StatusOK, v)
}

// drop deletes the object that the path names.
func drop(ctx context.Context, c *fiber.Ctx, kind string, f func(context.Context, string) error) error {
	n, err := name(c, kind)
	if err != nil {
		return err
	}
	if err := f(ctx, n); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}

func (r *router) images(ctx context.Context, c *fiber.Ctx) error { return list(ctx, c, r.Store.Images) }

func (r *router) image(ctx context.Context, c *fiber.Ctx) error {
	return show(ctx, c, "image", r.Store.Image)
}

func (r *router) importImage(ctx context.Context, c *fiber.Ctx) error {
	var req wire.ImageRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	req.Pool = cmp.Or(req.Pool, r.DefaultPool)
	if err := checkImage(req); err != nil {
		return err
	}
	receipt, err := r.Intake.Import(ctx, req.Name, req.Pool, seedbed.ImportSpec{Path: req.Path, SHA256: req.SHA256, Format: req.Format, Firmware: req.Firmware, Node: req.Node})
	if err != nil {
		return err
	}
	return accepted(c, receipt)
}
