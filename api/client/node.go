package client

import (
	"context"
	"net/url"
	"strconv"

	"seedbed"
	"seedbed/api/wire"
)

// Nodes lists the nodes by name, including removed nodes that still have instances.
func (c *Client) Nodes(ctx context.Context) ([]seedbed.NodeStatus, error) {
	return c.ListNodes(ctx, Selection{})
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, name string) (seedbed.NodeStatus, error) {
	return get[seedbed.NodeStatus](ctx, c, at("/nodes", name), nil)
}

// AddNode adds a node.
func (c *Client) AddNode(ctx context.Context, r wire.NodeRequest) (seedbed.NodeStatus, error) {
	return post[seedbed.NodeStatus](ctx, c, "/nodes", r)
}

// ChangeNode changes a node's worker address, or whether the node is cordoned.
func (c *Client) ChangeNode(ctx context.Context, name string, change wire.NodeChange) (seedbed.NodeStatus, error) {
	return patch[seedbed.NodeStatus](ctx, c, at("/nodes", name), change)
}

// RemoveNode removes a node. It returns seedbed.ErrInUse when the node is still in use.
func (c *Client) RemoveNode(ctx context.Context, name string) error {
	return c.remove(ctx, at("/nodes", name))
}

// FenceStatus asks the fence agent of a node whether the node is on.
func (c *Client) FenceStatus(ctx context.Context, name string) (wire.FenceStatus, error) {
	return get[wire.FenceStatus](ctx, c, at("/nodes", name)+"/fence", nil)
}

// Fence starts a job that fences a node and starts instances of it elsewhere. confirmed says that the node is off.
func (c *Client) Fence(ctx context.Context, name string, confirmed bool) (seedbed.Receipt, error) {
	return post[seedbed.Receipt](ctx, c, at("/nodes", name)+"/fence", wire.FenceRequest{Confirmed: confirmed})
}

// ListPlacementGroups lists the placement groups, as s selects them. It reads them page by page.
func (c *Client) ListPlacementGroups(ctx context.Context, s Selection) ([]seedbed.PlacementGroup, error) {
	return selected[seedbed.PlacementGroup](ctx, c, "/placement-groups", s)
}

// CreatePlacementGroup makes a placement group, and returns it.
func (c *Client) CreatePlacementGroup(ctx context.Context, r wire.PlacementGroupRequest) (seedbed.PlacementGroup, error) {
	return post[seedbed.PlacementGroup](ctx, c, "/placement-groups", r)
}

// PlacementGroup returns a placement group with its members, or seedbed.ErrNotFound.
func (c *Client) PlacementGroup(ctx context.Context, name string) (seedbed.PlacementGroup, error) {
	return get[seedbed.PlacementGroup](ctx, c, at("/placement-groups", name), nil)
}

// DeletePlacementGroup removes a placement group. It returns seedbed.ErrInUse, with what uses it, if something does.
func (c *Client) DeletePlacementGroup(ctx context.Context, name string) error {
	return c.remove(ctx, at("/placement-groups", name))
}

// Rebalancing returns which instances to take to other nodes, by seedbed.BalanceMemory or BalanceVCPUs, at most that many.
func (c *Client) Rebalancing(ctx context.Context, by string, moves int) (seedbed.Rebalancing, error) {
	return get[seedbed.Rebalancing](ctx, c, "/rebalancing", url.Values{"by": {by}, "moves": {strconv.Itoa(moves)}})
}
