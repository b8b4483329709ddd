package cleanup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// inventory is what a run of the cleanup relies on.
type inventory struct {
	// nodes are those that can be relied on, by name.
	nodes []string
	// present are the domains of all inventories that are complete, whatever node
	// they are on: one that was moved by hand is not gone.
	present []seedbed.InstanceID
	// due is what is in the trash and whose time is over.
	due []seedbed.TrashItem
	// strays carry our tag and are of nothing that is known.
	strays []seedbed.Orphan
	// skipped is why the other nodes cannot be relied on.
	skipped []string
}

// takeInventory takes the inventories of all nodes, and what is in their trash.
func (c *Cleaner) takeInventory(ctx context.Context, now time.Time, force bool) (inventory, error) {
	var s inventory
	nodes := c.hosts.Nodes()
	if len(nodes) == 0 {
		s.skipped = []string{"there is no hypervisor whose inventory could be taken, so nothing is touched"}
		return s, nil
	}
	inventories, problems := c.inventories(ctx, nodes)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if !slices.Contains(problems, "") {
		s.skipped = problems
		return s, nil
	}
	instances, err := c.store.Instances(ctx)
	if err != nil {
		return s, fmt.Errorf("list instances: %w", err)
	}
	images, err := c.store.Images(ctx)
	if err != nil {
		return s, fmt.Errorf("list images: %w", err)
	}
	known := knownOf(instances, images)
	there := map[seedbed.InstanceID]bool{}
	for i := range nodes {
		if problems[i] != "" {
			continue
		}
		for _, d := range inventories[i].Domains {
			if !there[d.ID] {
				there[d.ID], s.present = true, append(s.present, d.ID)
			}
		}
	}
	for i, n := range nodes {
		problem := problems[i]
		if problem == "" && !force {
			problem = wrongLibvirt(n.Name, instances, there)
		}
		var due []seedbed.TrashItem
		if problem == "" {
			due, problem = c.overdue(ctx, n.Name, now)
		}
		if problem != "" {
			s.skipped = append(s.skipped, problem)
			continue
		}
		s.nodes = append(s.nodes, n.Name)
		s.strays = append(s.strays, known.strays(inventories[i], n.Name)...)
		for _, item := range due { // of a pool that nodes share each names the same
			if !slices.ContainsFunc(s.due, func(d seedbed.TrashItem) bool {
				return d.Pool == item.Pool && d.ID == item.ID && d.Node == item.Node
			}) {
				s.due = append(s.due, item)
			}
		}
	}
	s.strays = onceInPools(s.strays)
	return s, ctx.Err()
}

// inventories asks all nodes at the same time; a problem is why one cannot be relied on.
func (c *Cleaner) inventories(ctx context.Context, nodes []seedbed.Node) (all []seedbed.Inventory, problems []string) {
	all, problems = make([]seedbed.Inventory, len(nodes)), make([]string, len(nodes))
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() {
			var err error
			all[i], err = c.hosts.Inventory(ctx, n.Name)
			switch {
			case err != nil:
				problems[i] = fmt.Sprintf("no inventory of node %s, so nothing is touched%s: %s", n.Name, ofIt(nodes), err)
			case !all[i].Complete:
				problems[i] = fmt.Sprintf("the inventory of node %s is not complete, so nothing is touched%s: %s", n.Name, ofIt(nodes), all[i].Problem)
			}
		})
	}
	group.Wait()
	return all, problems
}

// ofIt limits what is said of one of several nodes.
func ofIt(nodes []seedbed.Node) string {
	if len(nodes) > 1 {
		return " of what is there"
	}
	return ""
}

// wrongLibvirt is why a node's inventory looks wrong; empty when it does not.
func wrongLibvirt(node string, instances []seedbed.Instance, there map[seedbed.InstanceID]bool) string {
	expected, missing := 0, 0
	for _, inst := range instances {
		if inst.Node != node || inst.Held || inst.State != seedbed.InstanceRunning && inst.State != seedbed.InstanceStopped {
			continue
		}
		expected++
		if !there[inst.ID] {
			missing++
		}
	}
	if expected < 4 || 2*missing <= expected {
		return ""
	}
	return fmt.Sprintf("%d of %d instances have no domain on node %s, which looks like the wrong libvirt rather than a cleanup, so nothing is touched there: run it with force if they are really gone, or remove them", missing, expected, node)
}
