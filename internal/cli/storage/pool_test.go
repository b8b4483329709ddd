package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestPools checks that a shared pool is listed once, with what is wrong
// with it on which node, and another once for each node.
func TestPools(t *testing.T) {
	t.Parallel()
	shared := seedbed.PoolInfo{Name: "vms", Type: "ceph", Size: 10 * seedbed.TiB, Free: seedbed.TiB, Shared: true}
	local := seedbed.PoolInfo{Name: "default", Type: "dir", Size: 100 * seedbed.GiB, Free: seedbed.GiB}
	away := seedbed.PoolInfo{Name: "vms", Type: "ceph", Shared: true, Problem: "Ceph did not answer"}
	nodes := []seedbed.NodeStatus{
		{Node: seedbed.Node{Name: "hv0", Report: seedbed.NodeReport{Pools: []seedbed.PoolInfo{away}}}},
		{Node: seedbed.Node{Name: "hv1", Report: seedbed.NodeReport{Pools: []seedbed.PoolInfo{shared, local}}}},
		{Node: seedbed.Node{Name: "hv2", Report: seedbed.NodeReport{Pools: []seedbed.PoolInfo{shared, local}}}},
		{Node: seedbed.Node{Name: "new"}},
		{Node: seedbed.Node{Name: "hv3", Report: seedbed.NodeReport{Pools: []seedbed.PoolInfo{away}}}},
	}
	want := []pool{
		{"default", "dir", []string{"hv1"}, 100 * seedbed.GiB, seedbed.GiB, false, ""},
		{"default", "dir", []string{"hv2"}, 100 * seedbed.GiB, seedbed.GiB, false, ""},
		{"vms", "ceph", []string{"hv0", "hv1", "hv2", "hv3"}, 10 * seedbed.TiB, seedbed.TiB, true,
			"hv0: Ceph did not answer; hv3: Ceph did not answer"},
	}
	if d := cmp.Diff(want, poolsOf(nodes, "")); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]pool{}, poolsOf(nodes, "new")); d != "" {
		t.Errorf("of a new node (-want +got):\n%s", d)
	}
}
