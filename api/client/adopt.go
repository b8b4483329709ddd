package client

import (
	"context"
	"net/http"
	"net/url"

	"seedbed"
)

// onNode returns the query that names a node, or nil for all nodes.
func onNode(node string) url.Values {
	if node == "" {
		return nil
	}
	return url.Values{"node": {node}}
}

// Domains lists the domains that belong to no instance, in short form. An empty node means all
// nodes.
func (c *Client) Domains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error) {
	return get[[]seedbed.ForeignDomain](ctx, c, "/domains", onNode(node))
}

// Domain returns one such domain, with the problems that would prevent its adoption. If node is
// empty, all nodes are searched.
func (c *Client) Domain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error) {
	return get[seedbed.ForeignDomain](ctx, c, at("/domains", name), onNode(node))
}

// Adopt starts a job that adopts a domain and its disks. If node is empty, all nodes are searched.
func (c *Client) Adopt(ctx context.Context, node, domain string, req seedbed.AdoptRequest) (r seedbed.Receipt, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: at("/domains", domain) + "/adopt", query: onNode(node), body: req, answer: &r})
	return r, err
}

// Forget starts a job that stops managing an instance. Its domain and disks stay.
func (c *Client) Forget(ctx context.Context, instance string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/forget", nil)
}
