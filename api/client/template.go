package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// The paths of templates.
const (
	systems  = "/templates/system"
	networks = "/templates/network"
	storages = "/templates/storage"
)

// tagOf returns the entity tag of an object that was read before. It is empty for one that was not.
func tagOf(s wire.Stored) string {
	if s.Revision == 0 {
		return ""
	}
	return wire.Tag(s.Revision, s.Created, s.Published)
}

// SystemTemplates lists the system templates whose names match pattern. An empty pattern matches
// all.
func (c *Client) SystemTemplates(ctx context.Context, in seedbed.Scope, pattern string) ([]wire.SystemTemplate, error) {
	return matching(ctx, c, systems, in, pattern, func(t wire.SystemTemplate) string { return t.Name })
}

// SystemTemplate returns a system template, or seedbed.ErrNotFound.
func (c *Client) SystemTemplate(ctx context.Context, name string) (wire.SystemTemplate, error) {
	return get[wire.SystemTemplate](ctx, c, at(systems, name), nil)
}

// CreateSystemTemplate creates a system template.
func (c *Client) CreateSystemTemplate(ctx context.Context, t seedbed.CatalogueSystem) (wire.SystemTemplate, error) {
	return post[wire.SystemTemplate](ctx, c, systems, t)
}

// ChangeSystemTemplate replaces a system template by t; the name cannot change. t must have been
// read before: if the template was changed since, the error is seedbed.ErrConflict.
func (c *Client) ChangeSystemTemplate(ctx context.Context, t wire.SystemTemplate) (wire.SystemTemplate, error) {
	return put[wire.SystemTemplate](ctx, c, at(systems, t.Name), tagOf(t.Stored), t.CatalogueSystem)
}

// DeleteSystemTemplate deletes a system template that no profile names.
func (c *Client) DeleteSystemTemplate(ctx context.Context, name string) error {
	return c.remove(ctx, at(systems, name))
}

// NetworkTemplates lists the network templates whose names match pattern. An empty pattern matches
// all.
func (c *Client) NetworkTemplates(ctx context.Context, in seedbed.Scope, pattern string) ([]wire.NetworkTemplate, error) {
	return matching(ctx, c, networks, in, pattern, func(t wire.NetworkTemplate) string { return t.Name })
}

// NetworkTemplate returns a network template, or seedbed.ErrNotFound.
func (c *Client) NetworkTemplate(ctx context.Context, name string) (wire.NetworkTemplate, error) {
	return get[wire.NetworkTemplate](ctx, c, at(networks, name), nil)
}

// CreateNetworkTemplate creates a network template without networks.
func (c *Client) CreateNetworkTemplate(ctx context.Context, r wire.NetworkTemplateRequest) (wire.NetworkTemplate, error) {
	return post[wire.NetworkTemplate](ctx, c, networks, r)
}

// DeleteNetworkTemplate deletes a network template that no profile names.
func (c *Client) DeleteNetworkTemplate(ctx context.Context, name string) error {
	return c.remove(ctx, at(networks, name))
}

// AddTemplateNetwork adds a NIC to a network template.
func (c *Client) AddTemplateNetwork(ctx context.Context, template string, r wire.TemplateNetworkRequest) (wire.NetworkTemplate, error) {
	return post[wire.NetworkTemplate](ctx, c, at(networks, template)+"/vnis", r)
}

// RemoveTemplateNetwork removes every NIC in that network from a network template.
func (c *Client) RemoveTemplateNetwork(ctx context.Context, template, vni string) error {
	return c.remove(ctx, at(at(networks, template)+"/vnis", vni))
}

// StorageTemplates lists the storage templates whose names match pattern. An empty pattern matches
// all.
func (c *Client) StorageTemplates(ctx context.Context, in seedbed.Scope, pattern string) ([]wire.StorageTemplate, error) {
	return matching(ctx, c, storages, in, pattern, func(t wire.StorageTemplate) string { return t.Name })
}

// StorageTemplate returns a storage template, or seedbed.ErrNotFound.
func (c *Client) StorageTemplate(ctx context.Context, name string) (wire.StorageTemplate, error) {
	return get[wire.StorageTemplate](ctx, c, at(storages, name), nil)
}

// CreateStorageTemplate creates a storage template without disks.
func (c *Client) CreateStorageTemplate(ctx context.Context, r wire.StorageTemplateRequest) (wire.StorageTemplate, error) {
	return post[wire.StorageTemplate](ctx, c, storages, r)
}

// DeleteStorageTemplate deletes a storage template that no profile names.
func (c *Client) DeleteStorageTemplate(ctx context.Context, name string) error {
	return c.remove(ctx, at(storages, name))
}

// AddTemplateDisk adds a disk to a storage template.
func (c *Client) AddTemplateDisk(ctx context.Context, template string, d seedbed.CatalogueDisk) (wire.StorageTemplate, error) {
	return post[wire.StorageTemplate](ctx, c, at(storages, template)+"/disks", d)
}

// RemoveTemplateDisk removes a disk from a storage template.
func (c *Client) RemoveTemplateDisk(ctx context.Context, template, disk string) error {
	return c.remove(ctx, at(at(storages, template)+"/disks", disk))
}
