package rest

import (
	"cmp"
	"context"
	"errors"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// answer returns a handler that answers what f returns.
func answer(f func(context.Context, *fiber.Ctx) (any, error)) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		v, err := f(ctx, c)
		if err != nil {
			return err
		}
		return server.Reply(c, fiber.StatusOK, v)
	}
}

// accept returns a handler that answers with the job that f has submitted, with the options of the
// request.
func (r *router) accept(f func(context.Context, *fiber.Ctx, seedbed.JobOptions) (seedbed.Receipt, error)) server.Handler {
	return func(ctx context.Context, c *fiber.Ctx) error {
		o, err := r.JobOptions(ctx, c)
		if err != nil {
			return err
		}
		receipt, err := f(ctx, c, o)
		if err != nil {
			return err
		}
		return server.Accepted(c, receipt)
	}
}

// acceptOn is like accept, for a job on an existing object. The store accepts it only if the object is
// the version that the request's If-Match header names.
func (r *router) acceptOn(f func(context.Context, *fiber.Ctx, seedbed.JobOptions) (seedbed.Receipt, error)) server.Handler {
	accept := r.accept(f)
	return func(ctx context.Context, c *fiber.Ctx) error { return accept(server.OnMatch(ctx, c), c) }
}

// showTagged answers the object that the path names, with its ETag.
func showTagged[T any](
	ctx context.Context, c *fiber.Ctx, kind string, f func(context.Context, string) (T, error), tag func(T) string,
) error {
	n, err := server.NameOf(c, kind)
	if err != nil {
		return err
	}
	v, err := f(ctx, n)
	if err != nil {
		return err
	}
	return server.Tagged(c, tag(v), v)
}

// drop deletes the object that the path names.
func drop(ctx context.Context, c *fiber.Ctx, kind string, f func(context.Context, string) error) error {
	n, err := server.NameOf(c, kind)
	if err != nil {
		return err
	}
	if err := f(ctx, n); err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}

// dropTagged is like drop, and refuses a request with an If-Match header that does not match the
// object's tag. f must call the check in the transaction that deletes.
func dropTagged[T any](
	ctx context.Context, c *fiber.Ctx, kind string, f func(context.Context, string, ...func(T) error) error, tag func(T) string,
) error {
	return drop(ctx, c, kind, func(ctx context.Context, n string) error {
		return f(ctx, n, server.IfMatch(c, tag))
	})
}

func (r *router) image(ctx context.Context, c *fiber.Ctx) error {
	n, err := r.Visible(ctx, c, seedbed.PublishedImage)
	if err != nil {
		return err
	}
	i, err := r.Store.Image(ctx, n)
	if err != nil {
		return err
	}
	i = shownTo(server.CallerOf(c), i, ofImage)
	return server.Tagged(c, server.ContentTag(i), i)
}

// removeImage starts the removal of an image of the caller's project.
func (r *router) removeImage(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := r.Owned(ctx, c, seedbed.PublishedImage)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.VolumeJobs.RemoveImage(ctx, n, o)
}

func (r *router) importImage(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	var req wire.ImageRequest
	if err := server.Receive(c, &req); err != nil {
		return seedbed.Receipt{}, err
	}
	if req.From == "" {
		req.Pool = cmp.Or(req.Pool, r.DefaultPool)
	}
	var err error
	if req.Name, err = server.CallerOf(c).Qualified("image", req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	if err := checkImage(req); err != nil {
		return seedbed.Receipt{}, err
	}
	spec := seedbed.ImportSpec{Path: req.Path, SHA256: req.SHA256, Format: req.Format, Firmware: req.Firmware, Node: req.Node}
	if req.From != "" {
		spec.From = &seedbed.VolumeSource{Name: req.From}
	}
	if req.Generalise {
		spec.Generalised = &seedbed.VolumeSource{} // which the intake chooses
	}
	return r.Intake.Import(ctx, req.Name, req.Pool, spec, o)
}

// uploadImage receives a disk image, and starts its import.
func (r *router) uploadImage(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := server.NameOf(c, "image")
	if err != nil {
		return seedbed.Receipt{}, err
	}
	spec := seedbed.ImportSpec{Format: c.Query("format"), Firmware: seedbed.Firmware(c.Query("firmware"))}
	file, err := r.uploadSpec(c)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	server.NoteUpload(c, map[string]any{"name": n, "pool": file.Pool, "node": file.Node, "sha256": file.SHA256, "format": spec.Format,
		"firmware": spec.Firmware})
	up, err := r.received(ctx, c, file, func() error { return r.free(ctx, n) })
	if err != nil {
		return seedbed.Receipt{}, err
	}
	spec.Upload, spec.SHA256, spec.Node = up.ID, up.SHA256, up.Node
	receipt, err := r.Intake.Import(ctx, n, up.Pool, spec, o)
	if err != nil {
		return seedbed.Receipt{}, r.Unneeded(ctx, up, err)
	}
	return receipt, nil
}

// free refuses an image whose name is taken, before the file is sent.
func (r *router) free(ctx context.Context, name string) error {
	_, err := r.Store.Image(ctx, name)
	switch {
	case err == nil:
		return seedbed.Errorf(seedbed.ErrExists, "image %q exists already", name)
	case errors.Is(err, seedbed.ErrNotFound):
		return nil
	}
	return err
}
