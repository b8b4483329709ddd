package cleanup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"seedbed"
)

// inventory is the data that a run of the cleanup relies on.
type inventory struct {
	// nodes are the nodes with a reliable inventory, by name.
	nodes []string
	// present are the domains of all complete inventories, whatever node they are on: a domain that
	// was moved by hand is not missing.
	present []seedbed.InstanceID
	// due are the items in the trash whose time is over.
	due []seedbed.TrashItem
	// strays carry Seedbed's tag but belong to nothing in the database.
	strays []seedbed.Orphan
	// skipped says why the other nodes' inventories are not reliable.
	skipped []string
}

// takeInventory takes the inventories of all nodes and of their trash.
func (c *Cleaner) takeInventory(ctx context.Context, now time.Time, force bool) (inventory, error) {
	var s inventory
	nodes := c.hosts.Nodes()
	if len(nodes) == 0 {
		s.skipped = []string{"there is no node whose inventory can be read, so nothing is removed"}
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
	owners, err := c.store.VolumeOwners(ctx) // after the instances, whose disks may become volumes
	if err != nil {
		return s, fmt.Errorf("list owners of volumes: %w", err)
	}
	images, err := c.store.Images(ctx)
	if err != nil {
		return s, fmt.Errorf("list images: %w", err)
	}
	known := knownOf(instances, owners, images)
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
		for _, item := range due { // every node that shares a pool lists its items
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

// inventories asks all nodes at the same time. A problem says why a node's inventory is not
// reliable.
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
				problems[i] = fmt.Sprintf("no inventory of node %s, so nothing is removed%s: %s", n.Name, ofIt(nodes), err)
			case !all[i].Complete:
				problems[i] = fmt.Sprintf("the inventory of node %s is not complete, so nothing is removed%s: %s", n.Name, ofIt(nodes), all[i].Problem)
			}
		})
	}
	group.Wait()
	return all, problems
}

// ofIt returns words that limit a message to one of several nodes.
func ofIt(nodes []seedbed.Node) string {
	if len(nodes) > 1 {
		return " there"
	}
	return ""
}

// wrongLibvirt returns why a node's inventory looks wrong; empty if it does not.
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
	return fmt.Sprintf("%d of %d instances have no domain on node %s, which looks like the wrong libvirt rather than a cleanup, "+
		"so nothing is removed there: run it with force if they are really gone, or remove them", missing, expected, node)
}
