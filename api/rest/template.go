package rest

import (
	"context"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

func (r *router) systemTemplates() objects[seedbed.SystemTemplate, wire.SystemTemplate] {
	return objects[seedbed.SystemTemplate, wire.SystemTemplate]{
		kind: "system template", list: r.Store.SystemTemplates, remove: r.Store.DeleteSystemTemplate, show: shownSystem,
		of: func(t seedbed.SystemTemplate) (string, seedbed.ObjectMeta) { return t.Name, t.ObjectMeta },
	}
}

func shownSystem(t seedbed.SystemTemplate) wire.SystemTemplate {
	return wire.SystemTemplate{CatalogueSystem: seedbed.SystemOfCatalogue(t), OVA: t.OVA, Stored: wire.Stored(t.ObjectMeta)}
}

// receiveSystem reads a system template.
func receiveSystem(c *fiber.Ctx) (seedbed.SystemTemplate, error) {
	var req seedbed.CatalogueSystem
	if err := server.Receive(c, &req); err != nil {
		return seedbed.SystemTemplate{}, err
	}
	if !req.VNC {
		req.VNCBind = ""
	}
	return req.Template(), nil
}

func (r *router) createSystemTemplate(ctx context.Context, c *fiber.Ctx) error {
	t, err := receiveSystem(c)
	if err != nil {
		return err
	}
	if t, err = r.Store.CreateSystemTemplate(ctx, t); err != nil {
		return err
	}
	return server.Created(c, "/templates/system/"+t.Name, shownSystem(t))
}

// changeSystemTemplate replaces a system template by the body.
func (r *router) changeSystemTemplate(ctx context.Context, c *fiber.Ctx) error {
	all := r.systemTemplates()
	n, err := server.NameOf(c, all.kind)
	if err != nil {
		return err
	}
	next, err := receiveSystem(c)
	if err != nil {
		return err
	}
	if err := keepsName(all.kind, next.Name, n); err != nil {
		return err
	}
	t, err := r.Store.ChangeSystemTemplate(ctx, n, func(t *seedbed.SystemTemplate) error {
		// The store has already counted this change.
		was := *t
		was.Revision--
		if err := server.Matches(c, all.tag(was)); err != nil {
			return err
		}
		next.ObjectMeta, next.OVA, next.OVAID = t.ObjectMeta, t.OVA, t.OVAID
		*t = next
		return nil
	})
	if err != nil {
		return err
	}
	return server.Tagged(c, all.tag(t), shownSystem(t))
}

func (r *router) networkTemplates() objects[seedbed.NetworkTemplate, wire.NetworkTemplate] {
	return objects[seedbed.NetworkTemplate, wire.NetworkTemplate]{
		kind: "network template", list: r.Store.NetworkTemplates, remove: r.Store.DeleteNetworkTemplate, show: shownNetworkTemplate,
		of: func(t seedbed.NetworkTemplate) (string, seedbed.ObjectMeta) { return t.Name, t.ObjectMeta },
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
	t, err := r.Store.CreateNetworkTemplate(ctx, req.Name, req.MAC)
	if err != nil {
		return err
	}
	return server.Created(c, "/templates/network/"+t.Name, shownNetworkTemplate(t))
}

// addVNI adds a NIC to the network template that the path names.
func (r *router) addVNI(ctx context.Context, c *fiber.Ctx) error {
	var req wire.TemplateNetworkRequest
	return changeObject(ctx, c, r.networkTemplates(), &req, server.MaxBody, func(name string) error {
		return r.Store.AddTemplateNetwork(ctx, name, req.VNI, req.PermitDuplicate)
	})
}

// removeVNI removes every NIC in a network from the network template that the path names.
func (r *router) removeVNI(ctx context.Context, c *fiber.Ctx) error {
	return changeObject(ctx, c, r.networkTemplates(), nil, 0, func(name string) error {
		return r.Store.RemoveTemplateNetwork(ctx, name, server.Param(c, "vni"))
	})
}

func (r *router) storageTemplates() objects[seedbed.StorageTemplate, wire.StorageTemplate] {
	return objects[seedbed.StorageTemplate, wire.StorageTemplate]{
		kind: "storage template", list: r.Store.StorageTemplates, remove: r.Store.DeleteStorageTemplate, show: shownStorageTemplate,
		of: func(t seedbed.StorageTemplate) (string, seedbed.ObjectMeta) { return t.Name, t.ObjectMeta },
	}
}

func shownStorageTemplate(t seedbed.StorageTemplate) wire.StorageTemplate {
	return wire.StorageTemplate{CatalogueStorage: seedbed.StorageOfCatalogue(t), Stored: wire.Stored(t.ObjectMeta)}
}

func (r *router) newStorageTemplate(ctx context.Context, c *fiber.Ctx) error {
	var req wire.StorageTemplateRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	t, err := r.Store.CreateStorageTemplate(ctx, req.Name)
	if err != nil {
		return err
	}
	return server.Created(c, "/templates/storage/"+t.Name, shownStorageTemplate(t))
}

// addDisk adds a disk to the storage template that the path names.
func (r *router) addDisk(ctx context.Context, c *fiber.Ctx) error {
	var req seedbed.CatalogueDisk
	return changeObject(ctx, c, r.storageTemplates(), &req, server.MaxBody, func(name string) error {
		pools, err := r.PoolNames(ctx)
		if err != nil {
			return err
		}
		if err := pools.Check(req.Disk()); err != nil {
			return err
		}
		return r.Store.AddTemplateDisk(ctx, name, req.Disk())
	})
}

// removeDisk removes a disk from the storage template that the path names.
func (r *router) removeDisk(ctx context.Context, c *fiber.Ctx) error {
	return changeObject(ctx, c, r.storageTemplates(), nil, 0, func(name string) error {
		return r.Store.RemoveTemplateDisk(ctx, name, server.Param(c, "disk"))
	})
}
