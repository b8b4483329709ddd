package client

import (
	"context"
	"net/http"
	"net/url"

	"seedbed"
	"seedbed/api/wire"
)

// CreateInstance starts a create job. It sends only name, profile, image, params, hold, protected,
// expires, at_expiry, node, network, arguments, ready and undefined of the request.
func (c *Client) CreateInstance(ctx context.Context, r seedbed.Request) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, "/instances", wire.InstanceRequest{
		Name: r.Name, Profile: r.Profile, Image: r.Image, Params: r.Params, NewInstance: newInstance(r),
		Arguments: r.Arguments, DisksOnly: r.Undefined,
	})
}

// newInstance returns the part of a request that does not say what the instance is made from.
func newInstance(r seedbed.Request) wire.NewInstance {
	return wire.NewInstance{Hold: r.Hold, Protected: r.Protected, Expires: r.Expires, AtExpiry: r.AtExpiry, Node: r.Node,
		Network: r.Network, NICs: r.NICs, SecurityGroups: r.SecurityGroups, Ready: r.Ready}
}

// Instances lists all instances.
func (c *Client) Instances(ctx context.Context) ([]seedbed.Instance, error) {
	return c.ListInstances(ctx, seedbed.InstanceQuery{})
}

// Instance returns the instance of that name, or seedbed.ErrNotFound.
func (c *Client) Instance(ctx context.Context, name string) (seedbed.Instance, error) {
	return get[seedbed.Instance](ctx, c, at("/instances", name), nil)
}

// RemoveInstance starts a job that removes an instance and its volumes. For a protected instance,
// confirm must repeat its name; otherwise it may be empty.
func (c *Client) RemoveInstance(ctx context.Context, name, confirm string) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{
		method: http.MethodDelete, path: at("/instances", name), query: given(map[string]string{"confirm": confirm}),
	})
}

// RemoveInstanceOnly starts a job that removes an instance, and makes its disks volumes of its project.
func (c *Client) RemoveInstanceOnly(ctx context.Context, name, confirm string) (seedbed.Receipt, error) {
	return send[seedbed.Receipt](ctx, c, call{
		method: http.MethodDelete, path: at("/instances", name), query: given(map[string]string{"confirm": confirm, "keep_disks": "true"}),
	})
}

// Console returns the last tail bytes, at most, of an instance's serial console.
func (c *Client) Console(ctx context.Context, name string, tail seedbed.Bytes) ([]byte, error) {
	var b []byte
	q := url.Values{"tail": {tail.String()}}
	err := c.do(ctx, call{method: http.MethodGet, path: at("/instances", name) + "/console", query: q, raw: &b})
	return b, err
}

// Access lists the last events of an instance's guest, newest first: leases, requests to the
// metadata address, and its report.
func (c *Client) Access(ctx context.Context, name string, f AccessFilter) ([]seedbed.GuestEvent, error) {
	return get[[]seedbed.GuestEvent](ctx, c, at("/instances", name)+"/access", f.query())
}

// Metadata returns what the instance would get for a path of the metadata address, such as
// "/latest/meta-data/", byte for byte.
func (c *Client) Metadata(ctx context.Context, name, path string) ([]byte, error) {
	var b []byte
	q := url.Values{"path": {path}}
	err := c.do(ctx, call{method: http.MethodGet, path: at("/instances", name) + "/metadata", query: q, raw: &b})
	return b, err
}
