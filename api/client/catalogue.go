package client

import (
	"context"

	"seedbed"
	"seedbed/api/wire"
)

// ImportImage starts an import job.
func (c *Client) ImportImage(ctx context.Context, r wire.ImageRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, "/images", r)
}

// Images lists the images.
func (c *Client) Images(ctx context.Context) ([]seedbed.Image, error) {
	return c.ListImages(ctx, Selection{})
}

// Image returns an image, or seedbed.ErrNotFound.
func (c *Client) Image(ctx context.Context, name string) (seedbed.Image, error) {
	return get[seedbed.Image](ctx, c, at("/images", name), nil)
}

// Networks lists the managed networks.
func (c *Client) Networks(ctx context.Context) ([]seedbed.Network, error) {
	return c.ListNetworks(ctx, Selection{})
}

// Leases lists the DHCP leases.
func (c *Client) Leases(ctx context.Context) ([]seedbed.Lease, error) {
	return c.ListLeases(ctx, Selection{})
}

// PlanImport returns what an import of a disk image or an OVA would make.
func (c *Client) PlanImport(ctx context.Context, r seedbed.ImportRequest) (seedbed.ImportPlan, error) {
	return post[seedbed.ImportPlan](ctx, c, "/plan/import", r)
}
