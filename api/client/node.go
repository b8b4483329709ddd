package client

import (
	"context"
	"net/http"

	"seedbed"
)

// NodeRequest describes a new node.
type NodeRequest struct {
	Name string `json:"name"`
	// Worker is the address of its worker, such as https://hv2.example:7375.
	Worker   string `json:"worker"`
	Cordoned bool   `json:"cordoned"`
}

// NodeChange is what to change of a node; nil leaves it.
type NodeChange struct {
	Worker   *string `json:"worker,omitempty"`
	Cordoned *bool   `json:"cordoned,omitempty"`
}

// Nodes lists the hypervisors by name, and those that are none any more and have instances.
func (c *Client) Nodes(ctx context.Context) ([]seedbed.NodeStatus, error) {
	return get[[]seedbed.NodeStatus](ctx, c, "/nodes", nil)
}

// Node returns one hypervisor.
func (c *Client) Node(ctx context.Context, name string) (seedbed.NodeStatus, error) {
	return get[seedbed.NodeStatus](ctx, c, at("/nodes", name), nil)
}

// AddNode adds a hypervisor.
func (c *Client) AddNode(ctx context.Context, r NodeRequest) (seedbed.NodeStatus, error) {
	return post[seedbed.NodeStatus](ctx, c, "/nodes", r)
}

// ChangeNode changes where a node's worker is, or whether the node is cordoned.
func (c *Client) ChangeNode(ctx context.Context, name string, change NodeChange) (seedbed.NodeStatus, error) {
	var n seedbed.NodeStatus
	err := c.do(ctx, call{method: http.MethodPatch, path: at("/nodes", name), body: change, answer: &n})
	return n, err
}

// RemoveNode forgets a hypervisor; seedbed.ErrInUse when it still has something.
func (c *Client) RemoveNode(ctx context.Context, name string) error {
	return c.remove(ctx, at("/nodes", name))
}
