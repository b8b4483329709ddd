package client

import (
	"context"
	"net/http"
	"net/url"

	"seedbed"
	"seedbed/api/wire"
)

// CreateInstance starts a create job. Only name, profile, params, hold,
// protected and node of the request are sent.
func (c *Client) CreateInstance(ctx context.Context, r seedbed.Request) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, "/instances", wire.InstanceRequest{
		Name: r.Name, Profile: r.Profile, Params: r.Params, NewInstance: newInstance(r),
	})
}

// newInstance is what a request says of a new instance beside what it is made from.
func newInstance(r seedbed.Request) wire.NewInstance {
	return wire.NewInstance{Hold: r.Hold, Protected: r.Protected, Node: r.Node}
}

// Instances lists all instances.
func (c *Client) Instances(ctx context.Context) ([]seedbed.Instance, error) {
	return c.ListInstances(ctx, seedbed.InstanceQuery{})
}

// Instance is one instance by name, or seedbed.ErrNotFound.
func (c *Client) Instance(ctx context.Context, name string) (seedbed.Instance, error) {
	return get[seedbed.Instance](ctx, c, at("/instances", name), nil)
}

// RemoveInstance starts a remove job: the instance goes, its volumes included.
// confirm is its name once more, for one that is protected; else it may be empty.
func (c *Client) RemoveInstance(ctx context.Context, name, confirm string) (seedbed.Receipt, error) {
	var r seedbed.Receipt
	err := c.do(ctx, call{method: http.MethodDelete, path: at("/instances", name), query: given(map[string]string{"confirm": confirm}), answer: &r})
	return r, err
}

// Console is the end of an instance's serial console, at most tail bytes.
func (c *Client) Console(ctx context.Context, name string, tail seedbed.Bytes) ([]byte, error) {
	var b []byte
	q := url.Values{"tail": {tail.String()}}
	err := c.do(ctx, call{method: http.MethodGet, path: at("/instances", name) + "/console", query: q, raw: &b})
	return b, err
}

// Access lists what the instance did lately, newest first: leases, requests
// to the metadata address, its report.
func (c *Client) Access(ctx context.Context, name string, f AccessFilter) ([]seedbed.GuestEvent, error) {
	return get[[]seedbed.GuestEvent](ctx, c, at("/instances", name)+"/access", f.query())
}

// Metadata is what the instance would get for a path of the metadata address,
// such as "/latest/meta-data/", byte for byte.
func (c *Client) Metadata(ctx context.Context, name, path string) ([]byte, error) {
	var b []byte
	q := url.Values{"path": {path}}
	err := c.do(ctx, call{method: http.MethodGet, path: at("/instances", name) + "/metadata", query: q, raw: &b})
	return b, err
}
