package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// Nodes reads nodes, and what they hold.
type Nodes interface {
	Node(ctx context.Context, name string) (seedbed.Node, error)
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	NodeUse(ctx context.Context) ([]seedbed.NodeUse, error)
}

// NodeChanges changes nodes.
type NodeChanges interface {
	AddNode(ctx context.Context, n seedbed.Node) (seedbed.Node, error)
	// ChangeNode applies change to a node's worker address and its cordon.
	ChangeNode(ctx context.Context, name string, change func(*seedbed.Node) error) (seedbed.Node, error)
	// RemoveNode removes a node. It returns ErrInUse, naming what uses it.
	RemoveNode(ctx context.Context, name string) error
}

// nodeSettings are the fields of a node that callers set.
type nodeSettings struct {
	Name     string    `json:"name"`
	Worker   string    `json:"worker"`
	Cordoned bool      `json:"cordoned"`
	Created  time.Time `json:"created"`
}

// nodeTag returns the entity tag of a node. It covers what callers set, not what the worker
// reports.
func nodeTag(n seedbed.Node) string {
	return contentTag(nodeSettings{n.Name, n.Worker, n.Cordoned, n.Created})
}

// shownNodeSettings returns a node in the form that the audit log keeps.
func (r *router) shownNodeSettings(ctx context.Context, name string) (any, error) {
	n, err := r.Store.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	return nodeSettings{n.Name, n.Worker, n.Cordoned, n.Created}, nil
}

// statuses returns all nodes by name, including removed nodes that still have instances.
func (r *router) statuses(ctx context.Context) ([]seedbed.NodeStatus, error) {
	nodes, err := r.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	use, err := r.Store.NodeUse(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]seedbed.NodeStatus, 0, len(nodes))
	for _, n := range nodes {
		all = append(all, r.status(n, use))
	}
	for _, u := range use {
		if !slices.ContainsFunc(nodes, func(n seedbed.Node) bool { return n.Name == u.Node }) {
			all = append(all, r.status(former(u.Node), use))
		}
	}
	slices.SortFunc(all, func(a, b seedbed.NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// former returns a stand-in for a removed node that still has instances.
func former(name string) seedbed.Node {
	return seedbed.Node{Name: name, Problem: "it has instances and is no node: add it (seedbed node add)"}
}

// status returns a node with the resources that its instances use.
func (r *router) status(n seedbed.Node, use []seedbed.NodeUse) seedbed.NodeStatus {
	s := seedbed.NodeStatus{Node: n, State: n.State(time.Now()), Control: n.Name == r.Node}
	for _, u := range use {
		if u.Node == n.Name {
			s.Instances, s.Running, s.VCPUs, s.Memory = u.Instances, u.Running, u.VCPUs, u.Memory
		}
	}
	return s
}

func (r *router) hypervisors(ctx context.Context, c *fiber.Ctx) error {
	return list(ctx, c, r.statuses)
}

func (r *router) hypervisor(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "node")
	if err != nil {
		return err
	}
	node, err := r.Store.Node(ctx, n)
	if errors.Is(err, seedbed.ErrNotFound) {
		return r.formerHypervisor(ctx, c, n, err)
	}
	if err != nil {
		return err
	}
	return r.showNode(ctx, c, node)
}

// formerHypervisor answers a removed node in the same form as the list. It sets no entity tag,
// because a removed node cannot be changed. It returns absent if the node has no instances.
func (r *router) formerHypervisor(ctx context.Context, c *fiber.Ctx, name string, absent error) error {
	use, err := r.Store.NodeUse(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(use, func(u seedbed.NodeUse) bool { return u.Node == name }) {
		return absent
	}
	return reply(c, fiber.StatusOK, r.status(former(name), use))
}

// showNode answers a node with its entity tag.
func (r *router) showNode(ctx context.Context, c *fiber.Ctx, n seedbed.Node) error {
	use, err := r.Store.NodeUse(ctx)
	if err != nil {
		return err
	}
	return tagged(c, nodeTag(n), r.status(n, use))
}

func (r *router) addNode(ctx context.Context, c *fiber.Ctx) error {
	var req wire.NodeRequest
	if err := receive(c, &req); err != nil {
		return err
	}
	n, err := r.Store.AddNode(ctx, seedbed.Node{Name: req.Name, Worker: req.Worker, Cordoned: req.Cordoned})
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderETag, nodeTag(n))
	return created(c, "/nodes/"+n.Name, r.status(n, nil))
}

func (r *router) changeNode(ctx context.Context, c *fiber.Ctx) error {
	n, err := name(c, "node")
	if err != nil {
		return err
	}
	var req wire.NodeChange
	if err := receive(c, &req); err != nil {
		return err
	}
	if req == (wire.NodeChange{}) {
		return invalid("nothing is to be changed: want worker, cordoned or both")
	}
	node, err := r.Store.ChangeNode(ctx, n, func(node *seedbed.Node) error {
		if err := matches(c, nodeTag(*node)); err != nil {
			return err
		}
		if req.Worker != nil {
			node.Worker = *req.Worker
		}
		if req.Cordoned != nil {
			node.Cordoned = *req.Cordoned
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.showNode(ctx, c, node)
}

func (r *router) removeNode(ctx context.Context, c *fiber.Ctx) error {
	if err := unchanged(ctx, c, "node", r.Store.Node, nodeTag); err != nil {
		return err
	}
	return drop(ctx, c, "node", r.Store.RemoveNode)
}
