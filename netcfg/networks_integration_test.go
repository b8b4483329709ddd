//go:build integration

package netcfg

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"seedbed"
)

// TestManyNetworks applies many networks of all kinds at once, writes nothing the second time, and removes all but
// one.
func TestManyNetworks(t *testing.T) {
	const n = 200
	m := open(t)
	var s lists
	kinds := []seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkRouted, seedbed.NetworkIsolated}
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		kind := kinds[i%len(kinds)]
		bridge := fmt.Sprintf("sb-%d", i)
		s.Networks = append(s.Networks, seedbed.Network{Name: fmt.Sprintf("p%d/lan", i), Kind: kind, NAT: kind == seedbed.NetworkNAT,
			Bridge: bridge,
			MAC:    seedbed.MAC{2, 1, 0, 0, byte(i >> 8), byte(i)}, Prefix: p, Gateway: p.Addr().Next()})
		id := seedbed.NICID(i + 1)
		s.Ports = append(s.Ports, Port{Tap: id.Tap(), MAC: seedbed.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, Addr: p.Addr().Next().Next(),
			Mark: id.Mark(), Bridge: bridge})
	}
	bridges := func() (all map[string]link) {
		t.Helper()
		rt, err := dialRoute()
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		if all, err = rt.links(); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(all, func(_ string, l link) bool { return l.kind != "bridge" })
		return all
	}
	apply(t, m, s, Options{})
	made := bridges()
	if len(made) != n || !made["sb-7"].up || made["sb-7"].mac != s.Networks[7].MAC {
		t.Fatalf("%d bridges, one of them %+v", len(made), made["sb-7"])
	}
	before, err := generation()
	if err != nil {
		t.Fatal(err)
	}
	apply(t, m, s, Options{})
	if after, err := generation(); err != nil || after != before {
		t.Errorf("the same again: generation %d of the rules, %v, and %d before", after, err, before)
	}
	s.Networks[7].MTU = 9000
	apply(t, m, s, Options{})
	if got := bridges()["sb-7"].mtu; got != 9000 {
		t.Errorf("MTU %d, want 9000", got)
	}
	s.Networks, s.Ports = s.Networks[:1], s.Ports[:1]
	apply(t, m, s, Options{})
	if left := bridges(); len(left) != 1 {
		t.Errorf("%d bridges are left, want 1", len(left))
	}
}
