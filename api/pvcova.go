package api

import (
	"context"

	"github.com/gofiber/fiber/v2"
)

// ovaRoutes are those of OVA images, of which there are none yet. What would be
// uploaded is not read.
func (r *router) ovaRoutes(p string, get, post, del routing) {
	none := func(context.Context, *fiber.Ctx, *fields) error {
		return refused(fiber.StatusNotFound, "No OVAs found.")
	}
	get(p, none)
	get(p+"/:name", none)
	upload := func(_ context.Context, _ *fiber.Ctx, f *fields) error {
		f.must("pool", "A storage pool must be specified.")
		f.must("ova_size", "An OVA size must be specified.")
		if f.err != nil {
			return f.err
		}
		return refused(fiber.StatusBadRequest, "Uploading OVA images is not supported by this release: import a disk as an image (seedbed image add), and name it as source_volume in a storage template.")
	}
	post(p, func(ctx context.Context, c *fiber.Ctx, f *fields) error {
		f.must("name", "A name must be specified.")
		return upload(ctx, c, f)
	})
	post(p+"/:name", upload)
	del(p+"/:name", func(_ context.Context, c *fiber.Ctx, _ *fields) error {
		return refused(fiber.StatusBadRequest, `The OVA image "%s" does not exist.`, param(c, "name"))
	})
}
