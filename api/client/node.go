package client

import (
	"context"
	"net/http"

	"seedbed"
	"seedbed/api/wire"
)

// Nodes lists the hypervisors by name, and those that are none any more and have instances.
func (c *Client) Nodes(ctx context.Context) ([]seedbed.NodeStatus, error) {
	return get[[]seedbed.NodeStatus](ctx, c, "/nodes", nil)
}

// Node returns one hypervisor.
func (c *Client) Node(ctx context.Context, name string) (seedbed.NodeStatus, error) {
	return get[seedbed.NodeStatus](ctx, c, at("/nodes", name), nil)
}

// AddNode adds a hypervisor.
func (c *Client) AddNode(ctx context.Context, r wire.NodeRequest) (seedbed.NodeStatus, error) {
	return post[seedbed.NodeStatus](ctx, c, "/nodes", r)
}

// ChangeNode changes where a node's worker is, or whether the node is cordoned.
func (c *Client) ChangeNode(ctx context.Context, name string, change wire.NodeChange) (seedbed.NodeStatus, error) {
	var n seedbed.NodeStatus
	err := c.do(ctx, call{method: http.MethodPatch, path: at("/nodes", name), body: change, answer: &n})
	return n, err
}

// RemoveNode forgets a hypervisor; seedbed.ErrInUse when it still has something.
func (c *Client) RemoveNode(ctx context.Context, name string) error {
	return c.remove(ctx, at("/nodes", name))
}
