package cleanup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestOnceInPools checks that strays in a shared pool are reported once, and others once for each
// node.
func TestOnceInPools(t *testing.T) {
	t.Parallel()
	on := func(node string, all ...seedbed.Orphan) []seedbed.Orphan {
		for i := range all {
			all[i].Node = node
		}
		return all
	}
	volume := seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: "ceph", Name: "v", Instance: "i"}
	other := seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: "ceph", Name: "v", Instance: "j"}
	tagged := seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: "ceph", Name: "w", Instance: "k", Project: "acme"}
	domain := seedbed.Orphan{Kind: seedbed.OrphanDomain, Name: "d", Instance: "i"}
	got := onceInPools(append(on("n1", volume, tagged, domain), on("n2", volume, tagged, other, domain)...))
	want := append(on("n1", volume, tagged, domain), on("n2", other, domain)...)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
