package provision

import (
	"context"
	"sync"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/worker/drivertest"
)

// alone is a worker as the cleanup sees that of a single node.
type alone struct {
	worker effects.Worker
}

func (a alone) Nodes() []seedbed.Node { return []seedbed.Node{{Name: testNode}} }

func (a alone) Inventory(ctx context.Context, _ string) (seedbed.Inventory, error) {
	return effects.Inventory.Ask(ctx, a.worker, effects.None{})
}

func (a alone) Trash(ctx context.Context, _ string) ([]seedbed.TrashItem, error) {
	return effects.Trash.Ask(ctx, a.worker, effects.None{})
}

func (a alone) PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error {
	_, err := effects.PurgeVolume.Ask(ctx, a.worker, effects.TrashRef{Pool: item.Pool, ID: item.ID, Early: early})
	return err
}

// Supersede does what a worker's fence does.
func (h *host) Supersede(_ context.Context, call seedbed.Call) error {
	if err := h.fence(call); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.superseded = append(h.superseded, call)
	return nil
}

// nodes are several nodes, each with its own libvirt and its own or shared pools. A node that is
// away answers nothing.
type nodes struct {
	mu    sync.Mutex
	list  []seedbed.Node
	hosts map[string]*host
}

// newNodes makes nodes with those names, and testNode, whose worker is first. Each has its own pool
// "default" or, if shared, all have one pool.
func newNodes(first *host, shared bool, names ...string) *nodes {
	f := &nodes{hosts: map[string]*host{testNode: first}}
	first.node = testNode
	all := append([]string{testNode}, names...)
	for _, name := range all {
		if name != testNode {
			h := &host{node: name, pool: drivertest.NewPool(), hv: drivertest.NewHypervisor(),
				scripts: drivertest.NewScripts(), epochs: map[seedbed.JobID]int64{}}
			if shared {
				h.pool = first.pool
			}
			h.hv.Files(h.pool)
			h.scripts.Pool = h.pool
			f.hosts[name] = h
		}
		f.list = append(f.list, seedbed.Node{Name: name, Seen: time.Now().Add(time.Hour),
			Report: seedbed.NodeReport{CPUs: 4, Memory: 8 * seedbed.GiB, MemoryFree: 8 * seedbed.GiB,
				Pools:     []seedbed.PoolInfo{{Name: "default", Type: "memory", Shared: shared}},
				Migration: seedbed.MigrationTarget{URI: "memory://" + name}}})
	}
	for _, from := range f.hosts {
		for name, to := range f.hosts {
			from.hv.Reach("memory://"+name, to.hv)
		}
	}
	return f
}

// setBoot records the boot of a node since which its instances were started again.
func (f *nodes) setBoot(name, boot string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].Name == name {
			f.list[i].Fencing.Boot = boot
		}
	}
}

// setAway makes a node stop answering, as if it had done so since that time ago, or answer again.
func (f *nodes) setAway(name string, is bool, since time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[name].silent.Store(is)
	for i := range f.list {
		if f.list[i].Name == name {
			f.list[i].Seen, f.list[i].Problem = time.Now().Add(time.Hour), ""
			if is {
				f.list[i].Seen, f.list[i].Problem = time.Now().Add(-since), "it does not answer"
			}
		}
	}
}

// drop removes a node from the installation.
func (f *nodes) drop(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var left []seedbed.Node
	for _, n := range f.list {
		if n.Name != name {
			left = append(left, n)
		}
	}
	f.list = left
}

func (f *nodes) Nodes() []seedbed.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seedbed.Node(nil), f.list...)
}

func (f *nodes) Of(node string) effects.Worker {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.list {
		if n.Name == node {
			return f.hosts[node]
		}
	}
	unknown := &host{node: node}
	unknown.silent.Store(true)
	return unknown
}

func (f *nodes) Inventory(ctx context.Context, node string) (seedbed.Inventory, error) {
	return effects.Inventory.Ask(ctx, f.Of(node), effects.None{})
}
