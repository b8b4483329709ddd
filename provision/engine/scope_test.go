package engine

import (
	"context"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// told is a worker that notes for which calls it was told that others continue the job.
type told struct {
	effects.Worker
	superseded []seedbed.Call
}

func (w *told) Supersede(_ context.Context, call seedbed.Call) error {
	w.superseded = append(w.superseded, call)
	return nil
}

// someNodes is a fleet of nodes that all answer.
type someNodes struct {
	list    []seedbed.Node
	workers map[string]*told
}

func (f *someNodes) Of(node string) effects.Worker { return f.workers[node] }
func (f *someNodes) Nodes() []seedbed.Node         { return append([]seedbed.Node(nil), f.list...) }

// TestSupersedeInEachPool checks a job that works in several pools of other nodes: the nodes of
// each pool are told before another worker continues there.
func TestSupersedeInEachPool(t *testing.T) {
	t.Parallel()
	f := &someNodes{workers: map[string]*told{}}
	pools := map[string][]string{"node1": {"fast", "slow"}, "node2": {"fast"}, "node3": {"slow"}}
	for _, name := range []string{"node1", "node2", "node3"} {
		n := seedbed.Node{Name: name, Seen: time.Now().Add(time.Hour)}
		for _, pool := range pools[name] {
			n.Report.Pools = append(n.Report.Pools, seedbed.PoolInfo{Name: pool, Shared: true})
		}
		f.list, f.workers[name] = append(f.list, n), &told{}
	}
	task := &Task{
		engine: New(Config{Node: "node1", Lease: time.Minute}, nil, f, nil),
		Job:    &seedbed.Job{ID: "moved", Epoch: 2}, Ref: seedbed.JobRef{ID: "moved", Epoch: 2}, lease: &leaseKeeper{start: time.Now()},
	}
	task.lease.until.Store(int64(time.Hour))
	for _, pool := range []string{"fast", "slow", "fast", "slow"} {
		err := task.InPool(t.Context(), "node1", pool, func(_ context.Context, w effects.Worker, _ seedbed.Call) error {
			if w != effects.Worker(f.workers["node1"]) {
				t.Errorf("pool %s: another node was asked", pool)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"node2", "node3"} {
		if n := len(f.workers[name].superseded); n != 1 {
			t.Errorf("%s was told %d times", name, n)
		}
	}
}
