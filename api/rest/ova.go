package rest

import (
	"cmp"
	"context"
	"strings"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) ovaImages() objects[seedbed.OVA, wire.OVA] {
	return objects[seedbed.OVA, wire.OVA]{
		r: r, kind: seedbed.PublishedOVA, list: r.Store.OVAs, show: shownOVA, publish: r.Store.PublishOVA,
		of: func(o *seedbed.OVA) (string, *seedbed.ObjectMeta) { return o.Name, o.Meta() },
	}
}

func shownOVA(o seedbed.OVA) wire.OVA {
	return wire.OVA{Name: o.Name, Volumes: o.Volumes, Stored: wire.Stored(o.ObjectMeta)}
}

// uploadOVA receives an OVA, and starts its import.
func (r *router) uploadOVA(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := server.NameOf(c, "OVA image")
	if err != nil {
		return seedbed.Receipt{}, err
	}
	spec := seedbed.UploadSpec{Pool: strings.Clone(cmp.Or(c.Query("pool"), r.DefaultPool))}
	if spec.Node, err = server.NodeQuery(c); err == nil {
		err = server.ChoosesNode(c, spec.Node)
	}
	if err == nil {
		spec.SHA256, err = server.WantedDigest(c, strings.ToLower(c.Query("sha256")))
	}
	if !server.IsForm(c) {
		spec.Size = seedbed.Bytes(max(0, c.Request().Header.ContentLength()))
	}
	server.NoteUpload(c, map[string]any{"name": n, "pool": spec.Pool, "node": spec.Node, "sha256": spec.SHA256})
	return r.TakeOVA(ctx, c, n, spec, o, err)
}

// removeOVA starts a job that removes an OVA image with its disks, its system template and its
// profile.
func (r *router) removeOVA(ctx context.Context, c *fiber.Ctx, o seedbed.JobOptions) (seedbed.Receipt, error) {
	n, err := r.Owned(ctx, c, seedbed.PublishedOVA)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return r.OVAs.RemoveOVA(ctx, n, o)
}
