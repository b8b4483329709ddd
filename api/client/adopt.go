package client

import (
	"context"
	"net/http"
	"net/url"

	"seedbed"
)

// onNode is the query that names a node; none for all.
func onNode(node string) url.Values {
	if node == "" {
		return nil
	}
	return url.Values{"node": {node}}
}

// Domains lists the domains that are nobody's instances, in short: those of that
// node or, without its name, of all.
func (c *Client) Domains(ctx context.Context, node string) ([]seedbed.ForeignDomain, error) {
	return get[[]seedbed.ForeignDomain](ctx, c, "/domains", onNode(node))
}

// Domain describes one of them, with what keeps it from being adopted. Without a
// node it is looked for on all.
func (c *Client) Domain(ctx context.Context, node, name string) (seedbed.ForeignDomain, error) {
	return get[seedbed.ForeignDomain](ctx, c, at("/domains", name), onNode(node))
}

// Adopt starts a job that takes a domain and its disks under management. Without
// a node the domain is looked for on all.
func (c *Client) Adopt(ctx context.Context, node, domain string, req seedbed.AdoptRequest) (r seedbed.Receipt, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: at("/domains", domain) + "/adopt", query: onNode(node), body: req, answer: &r})
	return r, err
}

// Forget starts a job that lets go of an instance, whose domain and disks stay.
func (c *Client) Forget(ctx context.Context, instance string) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/instances", instance)+"/forget", nil)
}
