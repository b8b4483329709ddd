package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestPools checks that a shared pool is listed once, and another once for each node.
func TestPools(t *testing.T) {
	t.Parallel()
	shared := seedbed.PoolInfo{Name: "vms", Type: "ceph", Size: 10 * seedbed.TiB, Free: seedbed.TiB, Shared: true}
	local := seedbed.PoolInfo{Name: "default", Type: "dir", Size: 100 * seedbed.GiB, Free: seedbed.GiB}
	nodes := []seedbed.NodeStatus{
		{Node: seedbed.Node{Name: "hv1", Report: seedbed.NodeReport{Pools: []seedbed.PoolInfo{shared, local}}}},
		{Node: seedbed.Node{Name: "hv2", Report: seedbed.NodeReport{Pools: []seedbed.PoolInfo{shared, local}}}},
		{Node: seedbed.Node{Name: "new"}},
	}
	want := []pool{
		{"default", "dir", []string{"hv1"}, 100 * seedbed.GiB, seedbed.GiB, false},
		{"default", "dir", []string{"hv2"}, 100 * seedbed.GiB, seedbed.GiB, false},
		{"vms", "ceph", []string{"hv1", "hv2"}, 10 * seedbed.TiB, seedbed.TiB, true},
	}
	if d := cmp.Diff(want, poolsOf(nodes, "")); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]pool{}, poolsOf(nodes, "new")); d != "" {
		t.Errorf("of a new node (-want +got):\n%s", d)
	}
}
