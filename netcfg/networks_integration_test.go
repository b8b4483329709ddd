//go:build integration

package netcfg

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
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

// TestNetworksNotUnderstood: while this version does not understand a network, its guests are closed, its bridge stays, the others are
// served, and Check says what to do.
func TestNetworksNotUnderstood(t *testing.T) {
	m := open(t)
	s := state0()
	const prefix = "10.78.0.0/24"
	secondNetwork(&s, seedbed.NetworkIsolated, prefix)
	peerNetworks(&s, 0, 1, true)
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	g3, addr := secondGuest(t, prefix)
	serveIn(t, g2, ":8080")
	serve(t, metadata)
	said := func(when, first, peer, neighbour string) {
		t.Helper()
		ask(t, when, g1, metadata, first)
		ask(t, when+": a peer", g1, addr+":8080", peer)
		ask(t, when+": a neighbour", g1, ip2.String()+":8080", neighbour)
		ask(t, when+": the guest of another network", g3, metadata, addr+" mark 103")
	}
	served := func(when string) {
		t.Helper()
		said(when, ip1.String()+" mark 101", ip1.String()+" mark 0", ip1.String()+" mark 0")
	}
	served("before")
	kind := s.Networks[0].Kind
	s.Networks[0].Kind = "later"
	for range 2 {
		err := m.Apply(t.Context(), s.state(), Options{})
		left, ok := errors.AsType[*LeftOut](err)
		if !ok || len(left.Networks) != 1 || left.Networks["default"] == nil {
			t.Fatalf("Apply = %v, want that default is left out", err)
		}
		said("not understood", "", "", "")
	}
	checks := map[string]seedbed.Check{}
	for _, c := range m.Check(t.Context()) {
		checks[c.Name] = c
	}
	if c := checks["network default"]; c.OK || !strings.Contains(c.Detail, "does not understand") || !strings.Contains(c.Hint, "update") {
		t.Errorf("check %+v", c)
	}
	if c, ok := checks["bridge seedbed0"]; ok {
		t.Errorf("check %+v", c)
	}
	if err := m.Change(t.Context(), Diff{Gone: []string{"sb2"}, Ports: s.Ports[1:2]}); err == nil || strings.Contains(err.Error(), "invalid") {
		t.Errorf("Change = %v, want that default is left out", err)
	}
	s.Networks[0].Kind = kind
	apply(t, m, s, Options{})
	served("after an update")
}
