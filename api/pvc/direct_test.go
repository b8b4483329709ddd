package pvc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
)

// TestDirectNICs checks that PVC's clients see NICs of direct networks in its words.
func TestDirectNICs(t *testing.T) {
	t.Parallel()
	direct := func(name, mode string) seedbed.Network {
		return seedbed.Network{Name: name, Kind: seedbed.NetworkDirect, Bridge: "sb-" + name, Uplink: "eth1",
			NetworkOptions: seedbed.NetworkOptions{Mode: mode}}
	}
	networks := map[string]seedbed.Network{"1": direct("1", seedbed.DirectVEPA), "2": direct("2", seedbed.DirectSRIOV),
		"3": {Name: "3", Kind: seedbed.NetworkNAT, Bridge: "br3"}}
	i := seedbed.Instance{NICs: []seedbed.NIC{{Network: "1"}, {Network: "2"}, {Network: "3"}}}
	var got [][]string
	for _, n := range vmRowOf(i, networks).Networks {
		got = append(got, []string{n.Type, n.VNI, n.Source, n.Model})
	}
	want := [][]string{{"direct", "1", "macvtap:eth1", "virtio"}, {"hostdev", "2", "hostdev:eth1", unknown}, {"bridge", "3", "br3", "virtio"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := netInfoOf(networks["1"]).Type; got != "bridged" {
		t.Errorf("the network is %q", got)
	}
}
