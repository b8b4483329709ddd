package rest

import (
	"cmp"
	"context"
	"slices"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) systemTemplates() objects[seedbed.SystemTemplate, wire.SystemTemplate] {
	return objects[seedbed.SystemTemplate, wire.SystemTemplate]{
		r: r, kind: seedbed.PublishedSystemTemplate, list: r.Store.SystemTemplates, show: shownSystem,
		change: r.Store.ChangeSystemTemplate, remove: r.Store.DeleteSystemTemplate, publish: r.Store.PublishSystemTemplate,
		of: func(t *seedbed.SystemTemplate) (string, *seedbed.ObjectMeta) { return t.Name, t.Meta() },
	}
}

func shownSystem(t seedbed.SystemTemplate) wire.SystemTemplate {
	return wire.SystemTemplate{CatalogueSystem: seedbed.SystemOfCatalogue(t), OVA: t.OVA, Stored: wire.Stored(t.ObjectMeta)}
}

// systemOf returns the system template that a request asks for.
func systemOf(req seedbed.CatalogueSystem) seedbed.SystemTemplate {
	if !req.VNC {
		req.VNCBind = ""
	}
	return req.Template()
}

func (r *router) createSystemTemplate(ctx context.Context, c *fiber.Ctx) error {
	var req seedbed.CatalogueSystem
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	var err error
	all := r.systemTemplates()
	if req.Name, err = all.called(c, req.Name); err != nil {
		return err
	}
	if err := server.ChoosesHost(c, systemOf(req)); err != nil {
		return err
	}
	t, err := r.Store.CreateSystemTemplate(ctx, systemOf(req))
	if err != nil {
		return err
	}
	return all.made(c, "/templates/system", t)
}

// changeSystemTemplate replaces a system template by the body.
func (r *router) changeSystemTemplate(ctx context.Context, c *fiber.Ctx) error {
	var req seedbed.CatalogueSystem
	all := r.systemTemplates()
	return all.modify(ctx, c, &req, server.MaxBody, func(n string) (func(*seedbed.SystemTemplate) error, error) {
		return func(t *seedbed.SystemTemplate) error {
			*t = systemOf(req)
			return nil
		}, cmp.Or(keepsName(all.kind, req.Name, n), server.ChoosesHost(c, systemOf(req)))
	})
}

func (r *router) networkTemplates() objects[seedbed.NetworkTemplate, wire.NetworkTemplate] {
	return objects[seedbed.NetworkTemplate, wire.NetworkTemplate]{
		r: r, kind: seedbed.PublishedNetworkTemplate, list: r.Store.NetworkTemplates, show: shownNetworkTemplate,
		change: r.Store.ChangeNetworkTemplate, remove: r.Store.DeleteNetworkTemplate, publish: r.Store.PublishNetworkTemplate,
		of: func(t *seedbed.NetworkTemplate) (string, *seedbed.ObjectMeta) { return t.Name, t.Meta() },
	}
}

func shownNetworkTemplate(t seedbed.NetworkTemplate) wire.NetworkTemplate {
	return wire.NetworkTemplate{CatalogueNetwork: seedbed.NetworkOfCatalogue(t), Stored: wire.Stored(t.ObjectMeta)}
}

func (r *router) newNetworkTemplate(ctx context.Context, c *fiber.Ctx) error {
	var req wire.NetworkTemplateRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	all := r.networkTemplates()
	name, err := all.called(c, req.Name)
	if err != nil {
		return err
	}
	t, err := r.Store.CreateNetworkTemplate(ctx, name, req.MAC)
	if err != nil {
		return err
	}
	return all.made(c, "/templates/network", t)
}

// addVNI adds a NIC to the network template that the path names.
func (r *router) addVNI(ctx context.Context, c *fiber.Ctx) error {
	var req wire.TemplateNetworkRequest
	return r.networkTemplates().modify(ctx, c, &req, server.MaxBody, func(string) (func(*seedbed.NetworkTemplate) error, error) {
		return func(t *seedbed.NetworkTemplate) error { return t.AddNetwork(req.VNI, req.PermitDuplicate) }, nil
	})
}

// removeVNI removes every NIC in a network from the network template that the path names.
func (r *router) removeVNI(ctx context.Context, c *fiber.Ctx) error {
	return r.networkTemplates().modify(ctx, c, nil, 0, func(string) (func(*seedbed.NetworkTemplate) error, error) {
		return func(t *seedbed.NetworkTemplate) error { return t.RemoveNetwork(server.Param(c, "vni")) }, nil
	})
}

func (r *router) storageTemplates() objects[seedbed.StorageTemplate, wire.StorageTemplate] {
	return objects[seedbed.StorageTemplate, wire.StorageTemplate]{
		r: r, kind: seedbed.PublishedStorageTemplate, list: r.Store.StorageTemplates, show: shownStorageTemplate,
		change: r.Store.ChangeStorageTemplate, remove: r.Store.DeleteStorageTemplate, publish: r.Store.PublishStorageTemplate,
		of: func(t *seedbed.StorageTemplate) (string, *seedbed.ObjectMeta) { return t.Name, t.Meta() },
	}
}

// shownStorageTemplate returns a storage template with images that mean the same, whoever names them, unless it
// is of the default project.
func shownStorageTemplate(t seedbed.StorageTemplate) wire.StorageTemplate {
	if seedbed.ProjectOf(t.Name) != seedbed.DefaultProject {
		t.Disks = slices.Clone(t.Disks)
		for i, d := range t.Disks {
			if d.Source != "" {
				t.Disks[i].Source = seedbed.Explicit(d.Source)
			}
		}
	}
	return wire.StorageTemplate{CatalogueStorage: seedbed.StorageOfCatalogue(t), Stored: wire.Stored(t.ObjectMeta)}
}

func (r *router) newStorageTemplate(ctx context.Context, c *fiber.Ctx) error {
	var req wire.StorageTemplateRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	all := r.storageTemplates()
	name, err := all.called(c, req.Name)
	if err != nil {
		return err
	}
	t, err := r.Store.CreateStorageTemplate(ctx, name)
	if err != nil {
		return err
	}
	return all.made(c, "/templates/storage", t)
}

// addDisk adds a disk to the storage template that the path names.
func (r *router) addDisk(ctx context.Context, c *fiber.Ctx) error {
	var req seedbed.CatalogueDisk
	return r.storageTemplates().modify(ctx, c, &req, server.MaxBody, func(string) (func(*seedbed.StorageTemplate) error, error) {
		pools, err := r.PoolNames(ctx)
		if err != nil {
			return nil, err
		}
		return func(t *seedbed.StorageTemplate) error { return t.AddDisk(req.Disk()) }, pools.Check(req.Disk())
	})
}

// removeDisk removes a disk from the storage template that the path names.
func (r *router) removeDisk(ctx context.Context, c *fiber.Ctx) error {
	return r.storageTemplates().modify(ctx, c, nil, 0, func(string) (func(*seedbed.StorageTemplate) error, error) {
		return func(t *seedbed.StorageTemplate) error { return t.RemoveDisk(server.Param(c, "disk")) }, nil
	})
}
