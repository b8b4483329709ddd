package guestplane

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"seedbed"
	"seedbed/netcfg"
)

// TestDesiredGroups: the kernel is told the security groups and those of each port, and a change of a group alone makes
// the plane apply the whole state.
func TestDesiredGroups(t *testing.T) {
	t.Parallel()
	g := guest0()
	g.NICs[0].Groups = []string{"acme/web"}
	state := stateWith([]seedbed.Network{network0()}, g)
	state.Groups = []seedbed.SecurityGroup{{Name: "acme/web"}}
	s := desired(state)
	ports := slices.Collect(s.Ports)
	if len(s.Groups) != 1 || len(ports) != 1 || !slices.Equal(ports[0].Groups, g.NICs[0].Groups) {
		t.Errorf("desired %+v with ports %+v", s, ports)
	}
	k := &fakeKernel{}
	p := testPlane(k)
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	for revision, group := range []seedbed.SecurityGroup{{Name: "acme/web"}, {Name: "acme/web", Rules: seedbed.DefaultRules("acme/web")}} {
		next := state
		next.Since, next.Revision = state.Revision, state.Revision+1
		next.Groups = []seedbed.SecurityGroup{group}
		if err := p.Apply(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if whole := k.tries[len(k.tries)-1] == "apply"; whole != (revision == 1) {
			t.Errorf("groups %+v: the whole state was applied: %t", next.Groups, whole)
		}
		state = next
	}
}

// withPeers is a state with guests of other nodes.
func withPeers(s seedbed.GuestPlaneState, peers ...seedbed.Guest) seedbed.GuestPlaneState {
	byID := map[seedbed.InstanceID]seedbed.Guest{}
	for _, g := range peers {
		byID[g.ID] = g
	}
	s.Peers = maps.All(byID)
	s.Peer = func(id seedbed.InstanceID) (seedbed.Guest, bool) { g, ok := byID[id]; return g, ok }
	return s
}

// TestDesiredPeers: the kernel is told the peers and what changes of them, without those that the node serves itself.
func TestDesiredPeers(t *testing.T) {
	t.Parallel()
	network := network0()
	one := func(n byte) seedbed.Guest {
		g := guest0()
		g.ID = seedbed.InstanceID(fmt.Sprint(n))
		g.NICs = []seedbed.GuestNIC{{MAC: seedbed.MAC{2, 0, 0, 0, 0, n}, Network: network.Name, Groups: []string{"web"}}}
		return g
	}
	networks := []seedbed.Network{network}
	macs := func(peers []netcfg.Peer) (all []string) {
		for _, p := range peers {
			if p.Bridge != network.Bridge || !slices.Equal(p.Groups, []string{"web"}) {
				t.Errorf("peer %+v", p)
			}
			all = append(all, p.MAC.String())
		}
		slices.Sort(all)
		return all
	}
	before := withPeers(stateWith(networks, one(1), one(2)), one(2), one(3), one(4))
	if got := macs(slices.Collect(desired(before).Peers)); !slices.Equal(got, []string{"02:00:00:00:00:03", "02:00:00:00:00:04"}) {
		t.Errorf("peers %v", got)
	}
	// 2 goes elsewhere, 3 comes here and is a peer for a moment yet, 4 ends, and 5 begins.
	after := withPeers(stateWith(networks, one(1), one(3)), one(2), one(3), one(5))
	after.Changed, after.ChangedPeers = []seedbed.InstanceID{"2", "3"}, []seedbed.InstanceID{"2", "4", "5"}
	d := changes(before, after)
	if got := macs(d.Peers); !slices.Equal(got, []string{"02:00:00:00:00:02", "02:00:00:00:00:05"}) {
		t.Errorf("new peers %v", got)
	}
	if got := fmt.Sprint(d.GonePeers); got != "[02:00:00:00:00:03 02:00:00:00:00:04]" {
		t.Errorf("peers %s are gone", got)
	}
	if len(d.Gone) != 1 || len(d.Ports) != 1 {
		t.Errorf("ports: %v go, %v come", d.Gone, d.Ports)
	}
}
