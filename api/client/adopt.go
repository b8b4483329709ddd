package client

import (
	"context"

	"seedbed"
)

// Domains lists the domains of the node that are nobody's instances, in short.
func (c *Client) Domains(ctx context.Context) ([]seedbed.ForeignDomain, error) {
	return get[[]seedbed.ForeignDomain](ctx, c, "/domains", nil)
}

// Domain describes one of them, with what keeps it from being adopted.
func (c *Client) Domain(ctx context.Context, name string) (seedbed.ForeignDomain, error) {
	return get[seedbed.ForeignDomain](ctx, c, at("/domains", name), nil)
}

// Adopt starts a job that takes a domain and its disks under management.
func (c *Client) Adopt(ctx context.Context, domain string, req seedbed.AdoptRequest) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/domains", domain)+"/adopt", req)
}

// Forget starts a job that lets go of an instance, whose domain and disks stay.
func (c *Client) Forget(ctx context.Context, instance string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/forget", nil)
}
