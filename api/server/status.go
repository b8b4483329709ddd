package server

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"seedbed"
)

// Statuses returns all nodes by name, including removed nodes that still have instances.
func (r *Router) Statuses(ctx context.Context) ([]seedbed.NodeStatus, error) {
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
		all = append(all, r.StatusOf(n, use))
	}
	for _, u := range use {
		if !slices.ContainsFunc(nodes, func(n seedbed.Node) bool { return n.Name == u.Node }) {
			all = append(all, r.StatusOf(Former(u.Node), use))
		}
	}
	slices.SortFunc(all, func(a, b seedbed.NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Former returns a stand-in for a removed node that still has instances.
func Former(name string) seedbed.Node {
	return seedbed.Node{Name: name, Problem: "it has instances but is not a node: add it (seedbed node add)"}
}

// StatusOf returns a node with the resources that its instances use.
func (r *Router) StatusOf(n seedbed.Node, use []seedbed.NodeUse) seedbed.NodeStatus {
	s := seedbed.NodeStatus{Node: n, State: n.State(time.Now()), Control: n.Name == r.Node}
	for _, u := range use {
		if u.Node == n.Name {
			s.Instances, s.Running, s.VCPUs, s.Memory = u.Instances, u.Running, u.VCPUs, u.Memory
		}
	}
	return s
}

// Examine runs the checks concurrently, so that one that hangs until its deadline does not use up
// the time of the others.
func (r *Router) Examine(ctx context.Context) []seedbed.Check {
	found := make([][]seedbed.Check, len(r.Checks))
	var wg sync.WaitGroup
	for i, check := range r.Checks {
		wg.Go(func() { found[i] = check(ctx) })
	}
	wg.Wait()
	var all []seedbed.Check
	for _, f := range found {
		all = append(all, f...)
	}
	return all
}

// StatusTimeout bounds the checks. PVC's client asks often, and shows the checks that have
// finished.
const StatusTimeout = 5 * time.Second
