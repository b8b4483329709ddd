package provision

import (
	"context"
	"testing"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// TestSupersedeInEachPool checks a job that works in several pools of other nodes: the nodes of
// each pool are told before another worker continues there.
func TestSupersedeInEachPool(t *testing.T) {
	t.Parallel()
	own := func() *host { return &host{epochs: map[seedbed.JobID]int64{}} }
	f := newNodes(own(), true, "node2", "node3")
	pools := map[string][]string{testNode: {"fast", "slow"}, "node2": {"fast"}, "node3": {"slow"}}
	for i, n := range f.list {
		f.list[i].Report.Pools = nil
		for _, pool := range pools[n.Name] {
			f.list[i].Report.Pools = append(f.list[i].Report.Pools, seedbed.PoolInfo{Name: pool, Shared: true})
		}
	}
	task := &task{
		engine: &Engine{cfg: Config{Node: testNode, Lease: time.Minute}, fleet: f, intervals: defaultIntervals()},
		job:    &seedbed.Job{ID: "moved", Epoch: 2}, ref: seedbed.JobRef{ID: "moved", Epoch: 2}, lease: &leaseKeeper{start: time.Now()},
	}
	task.lease.until.Store(int64(time.Hour))
	for _, pool := range []string{"fast", "slow", "fast", "slow"} {
		err := task.inPool(t.Context(), testNode, pool, func(_ context.Context, w effects.Worker, _ seedbed.Call) error {
			if w != effects.Worker(f.hosts[testNode]) {
				t.Errorf("pool %s: another node was asked", pool)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"node2", "node3"} {
		if n := len(f.hosts[name].superseded); n != 1 {
			t.Errorf("%s was told %d times", name, n)
		}
	}
}
