package client

import (
	"context"
	"net/http"

	"seedbed"
)

// Domains lists the domains that belong to no instance, in short form. An empty node means all
// nodes.
func (c *Client) Domains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error) {
	return c.ListDomains(ctx, Selection{Where: map[string]string{"node": node}})
}

// Domain returns one such domain, with the problems that would prevent its adoption. If node is
// empty, all nodes are searched.
func (c *Client) Domain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error) {
	return get[seedbed.ForeignDomain](ctx, c, at("/domains", name), onNode(node))
}

// Adopt starts a job that adopts a domain and its disks. If node is empty, all nodes are searched.
func (c *Client) Adopt(ctx context.Context, node, domain string, req seedbed.AdoptRequest) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{
		method: http.MethodPost, path: at("/domains", domain) + "/adopt", query: onNode(node), body: req,
	})
}

// Forget starts a job that stops managing an instance. Its domain and disks stay.
func (c *Client) Forget(ctx context.Context, instance string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/forget", nil)
}
