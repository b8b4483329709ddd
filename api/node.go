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

// Nodes are the hypervisors, and what they have.
type Nodes interface {
	Node(ctx context.Context, name string) (seedbed.Node, error)
	Nodes(ctx context.Context) ([]seedbed.Node, error)
	NodeUse(ctx context.Context) ([]seedbed.NodeUse, error)
}

// NodeChanges are what may change of them.
type NodeChanges interface {
	AddNode(ctx context.Context, n seedbed.Node) (seedbed.Node, error)
	// ChangeNode makes a node what change says of its worker and whether it is cordoned.
	ChangeNode(ctx context.Context, name string, change func(*seedbed.Node) error) (seedbed.Node, error)
	// RemoveNode forgets a node; ErrInUse with what it still has.
	RemoveNode(ctx context.Context, name string) error
}

// nodeSettings are what callers decide of a node.
type nodeSettings struct {
	Name     string    `json:"name"`
	Worker   string    `json:"worker"`
	Cordoned bool      `json:"cordoned"`
	Created  time.Time `json:"created"`
}

// nodeTag is the entity tag of a node: of what callers decide, not of what its worker says.
func nodeTag(n seedbed.Node) string {
	return contentTag(nodeSettings{n.Name, n.Worker, n.Cordoned, n.Created})
}

// shownNodeSettings is a node as the audit log keeps it.
func (r *router) shownNodeSettings(ctx context.Context, name string) (any, error) {
	n, err := r.Store.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	return nodeSettings{n.Name, n.Worker, n.Cordoned, n.Created}, nil
}

// statuses are all nodes by name, and those that are none any more and have instances.
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

// former is what is left of a node that is none any more: its instances.
func former(name string) seedbed.Node {
	return seedbed.Node{Name: name, Problem: "it has instances and is no node: add it (seedbed node add)"}
}

// status is a node with what its instances take.
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

// formerHypervisor shows what is none any more as the list does, without an entity tag
// since nothing can be changed of it. It is absent when it has no instances.
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
