package rest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"seedbed"
	"seedbed/api/server"
	"seedbed/api/wire"

	"github.com/gofiber/fiber/v2"
)

// nodeSettings are the fields of a node that callers set.
type nodeSettings struct {
	Name     string    `json:"name"`
	Worker   string    `json:"worker"`
	Cordoned bool      `json:"cordoned"`
	Created  time.Time `json:"created"`
	// Agent and Options are those of its fence agent.
	Agent   string            `json:"fence_agent,omitempty"`
	Options map[string]string `json:"fence_options,omitempty"`
}

func settingsOf(n seedbed.Node) nodeSettings {
	return nodeSettings{n.Name, n.Worker, n.Cordoned, n.Created, n.Fencing.Agent, n.Fencing.Options}
}

// nodeTag returns the entity tag of a node. It covers what callers set, not what the worker
// reports.
func nodeTag(n seedbed.Node) string {
	return server.ContentTag(settingsOf(n))
}

// shownNodeSettings returns a node in the form that the audit log keeps.
func (r *router) shownNodeSettings(ctx context.Context, name string) (any, error) {
	n, err := r.Store.Node(ctx, name)
	if err != nil {
		return nil, err
	}
	return settingsOf(n), nil
}

func (r *router) hypervisor(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "node")
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
	return server.Reply(c, fiber.StatusOK, r.StatusOf(server.Former(name), use))
}

// showNode answers a node with its entity tag.
func (r *router) showNode(ctx context.Context, c *fiber.Ctx, n seedbed.Node) error {
	use, err := r.Store.NodeUse(ctx)
	if err != nil {
		return err
	}
	return server.Tagged(c, nodeTag(n), r.StatusOf(n, use))
}

func (r *router) addNode(ctx context.Context, c *fiber.Ctx) error {
	var req wire.NodeRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	n, err := r.Store.AddNode(ctx, seedbed.Node{Name: req.Name, Worker: req.Worker, Cordoned: req.Cordoned})
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderETag, nodeTag(n))
	return server.Created(c, "/nodes/"+n.Name, r.StatusOf(n, nil))
}

func (r *router) changeNode(ctx context.Context, c *fiber.Ctx) error {
	n, err := server.NameOf(c, "node")
	if err != nil {
		return err
	}
	var req wire.NodeChange
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	if req == (wire.NodeChange{}) {
		return server.Invalid("nothing to change: expected worker, cordoned or fencing")
	}
	var sealed []byte
	if f := req.Fencing; f != nil && f.Agent != "" {
		if err := seedbed.CheckFence(f.Agent, f.Secrets); err != nil {
			return err
		}
		if sealed, err = r.Fencing.Seal(f.Secrets); err != nil {
			return err
		}
	}
	node, err := r.Store.ChangeNode(ctx, n, func(node *seedbed.Node) error {
		if err := server.Matches(c, nodeTag(*node)); err != nil {
			return err
		}
		if req.Worker != nil {
			node.Worker = *req.Worker
		}
		if req.Cordoned != nil {
			node.Cordoned = *req.Cordoned
		}
		if f := req.Fencing; f != nil {
			node.Fencing.Agent, node.Fencing.Options, node.Fencing.Sealed = f.Agent, f.Options, sealed
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.showNode(ctx, c, node)
}

func (r *router) removeNode(ctx context.Context, c *fiber.Ctx) error {
	return dropTagged(ctx, c, "node", r.Store.RemoveNode, nodeTag)
}

// usage answers what the running instances of a project have used, by their nodes.
func (r *router) usage(ctx context.Context, c *fiber.Ctx) (err error) {
	q := seedbed.InstanceQuery{State: seedbed.InstanceRunning}
	if q.Scope, err = server.ScopeOf(c); err != nil {
		return err
	}
	if q.Node, err = server.NodeQuery(c); err != nil {
		return err
	}
	all, err := r.Store.ListInstances(ctx, q)
	if err != nil {
		return err
	}
	byID, nodes := map[seedbed.InstanceID]seedbed.Instance{}, map[string]bool{}
	for _, i := range all {
		byID[i.ID], nodes[i.Node] = i, true
	}
	answer := wire.Usage{Nodes: []wire.NodeUsage{}}
	for _, n := range r.Usage(ctx, slices.Sorted(maps.Keys(nodes))) {
		of := wire.NodeUsage{Node: n.Node, At: n.At, Problem: n.Problem, Instances: []wire.InstanceUsage{}}
		if n.Problem != "" && !server.CallerOf(c).Home {
			of.Problem = server.Unavailable
		}
		for _, d := range n.Domains {
			if i, ok := byID[d.ID]; ok && i.Node == n.Node {
				of.Instances = append(of.Instances, wire.InstanceUsage{Name: i.Name, Project: i.Project, DomainUsage: d})
			}
		}
		slices.SortFunc(of.Instances, func(a, b wire.InstanceUsage) int {
			return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
		})
		answer.Nodes = append(answer.Nodes, of)
	}
	return server.Reply(c, fiber.StatusOK, answer)
}

// fenceTimeout is how long a fence agent has to answer.
const fenceTimeout = 2 * time.Minute

// fenceStatus answers whether a node is on, as its fence agent says.
func (r *router) fenceStatus(ctx context.Context, c *fiber.Ctx) error {
	name, err := server.NameOf(c, "node")
	if err != nil {
		return err
	}
	n, err := r.Store.Node(ctx, name)
	if err != nil {
		return err
	}
	if n.Fencing.Agent == "" {
		return seedbed.Errorf(seedbed.ErrConflict, "node %q has no fence agent: give it one (seedbed node fence set %s)", name, name)
	}
	on, from, err := r.Fencing.Status(ctx, n)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, wire.FenceStatus{On: on, From: from})
}

// fence accepts a job that fences a node.
func (r *router) fence(ctx context.Context, c *fiber.Ctx) error {
	name, err := server.NameOf(c, "node")
	if err != nil {
		return err
	}
	var req wire.FenceRequest
	if err := server.Receive(c, &req); err != nil {
		return err
	}
	receipt, err := r.Fencing.Failover(ctx, name, req.Confirmed)
	if err != nil {
		return err
	}
	return server.Accepted(c, receipt)
}

// maxMoves is how many moves of a rebalancing are suggested unless the query says otherwise.
const maxMoves = 10

// rebalancing suggests which instances to take to other nodes.
func (r *router) rebalancing(ctx context.Context, c *fiber.Ctx) error {
	by, most := strings.Clone(c.Query("by", seedbed.BalanceMemory)), maxMoves
	if by != seedbed.BalanceMemory && by != seedbed.BalanceVCPUs {
		return server.Invalid("by is %q: expected %s or %s", seedbed.Clip(by), seedbed.BalanceMemory, seedbed.BalanceVCPUs)
	}
	if text := c.Query("moves"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > seedbed.MaxRebalance {
			return server.Invalid("moves is %q: expected 1 to %d", seedbed.Clip(text), seedbed.MaxRebalance)
		}
		most = n
	}
	all, err := r.Intake.Rebalance(ctx, by, most)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, all)
}
