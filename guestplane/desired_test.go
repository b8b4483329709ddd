package guestplane

import (
	"fmt"
	"maps"
	"net/netip"
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
	s := testPlane(&fakeKernel{}).desired(state)
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

// TestDesiredDirect: the kernel is told nothing of direct networks and of NICs in them, also when these change, and the check of the
// node names an uplink that it does not have.
func TestDesiredDirect(t *testing.T) {
	t.Parallel()
	direct := seedbed.Network{Name: "lab", Kind: seedbed.NetworkDirect, Bridge: "sb-lab", Uplink: "eth9",
		NetworkOptions: seedbed.NetworkOptions{Mode: seedbed.DirectBridge}}
	other := direct
	other.Name, other.Bridge, other.Uplink = "here", "sb-here", "lo"
	g := guest0()
	g.NICs = append(g.NICs, seedbed.GuestNIC{ID: 77, MAC: seedbed.MAC{2, 0, 0, 0, 0, 7}, Network: direct.Name})
	state := stateWith([]seedbed.Network{direct, network0(), other}, g)
	p := testPlane(&fakeKernel{})
	s := p.desired(state)
	if ports := slices.Collect(s.Ports); len(s.Networks) != 1 || s.Networks[0].Name != network0().Name || len(ports) != 1 {
		t.Errorf("desired networks %+v and ports %+v", s.Networks, ports)
	}
	state.Changed = []seedbed.InstanceID{g.ID}
	if d := changes(state, state); len(d.Ports) != 1 {
		t.Errorf("changed ports %+v", d.Ports)
	}
	if err := p.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if served, names, uplinks := p.networks(); len(served) != 1 || len(names) != 1 || !slices.Equal(uplinks, []string{"eth9", "lo"}) {
		t.Errorf("served %+v; watched %v and %v", served, names, uplinks)
	}
	checks := p.directChecks()
	if len(checks) != 2 || checks[0].OK || !checks[1].OK || checks[0].Detail != "interface eth9, its uplink, does not exist on this node" {
		t.Errorf("checks %+v", checks)
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
	plane := testPlane(&fakeKernel{})
	if got := macs(slices.Collect(plane.desired(before).Peers)); !slices.Equal(got, []string{"02:00:00:00:00:03", "02:00:00:00:00:04"}) {
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

// TestDesiredArriving: a guest that arrives has its filters, and its forwards and floating addresses only once it is here.
func TestDesiredArriving(t *testing.T) {
	t.Parallel()
	g, network := guest0(), network0()
	g.NICs[0].Network, g.NICs[0].Floating = network.Name, netip.MustParseAddr("203.0.113.7")
	g.NICs[0].Forwards = []seedbed.Forward{{Port: 80}}
	for _, g.Arriving = range []bool{true, false} {
		ports := slices.Collect(testPlane(&fakeKernel{}).desired(stateWith([]seedbed.Network{network}, g)).Ports)
		if len(ports) != 1 || ports[0].MAC != g.NICs[0].MAC || (len(ports[0].Forwards) == 0) != g.Arriving ||
			ports[0].Floating.IsValid() == g.Arriving {
			t.Errorf("arriving %v: ports %+v", g.Arriving, ports)
		}
	}
}

// TestDesiredOverlay: the kernel is told where the nodes get frames of overlays, and on which node a peer is. A change of that
// makes the plane apply the whole state.
func TestDesiredOverlay(t *testing.T) {
	t.Parallel()
	n := network0()
	n.VNI, n.MTU = 7, 1450
	far := guest0()
	far.ID, far.Node = "far", "hv2"
	a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	state := withPeers(stateWith([]seedbed.Network{n}), far)
	state.Nodes = map[string]netip.Addr{"hv1": a, "hv2": b}
	k := &fakeKernel{}
	plane := testPlane(k)
	s := plane.desired(state)
	peers := slices.Collect(s.Peers)
	if s.Address != a || len(s.Nodes) != 2 || len(peers) != 1 || peers[0].Node != b || peers[0].Addr != far.NICs[0].Addr {
		t.Errorf("desired %+v with peers %+v", s, peers)
	}
	if err := plane.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	next := state
	next.Since, next.Revision, next.ChangedPeers = state.Revision, state.Revision+1, []seedbed.InstanceID{"far"}
	if d := changes(state, next); len(d.Peers) != 1 || d.Peers[0].Node != b {
		t.Errorf("changes %+v", d)
	}
	key := seedbed.Tunnel{Key: seedbed.TunnelKey{1}, Port: 51820}
	for i, nodes := range []map[string]netip.Addr{state.Nodes, {"hv1": a, "hv2": c}, {"hv1": a, "hv2": c}} {
		if i == 2 {
			next.Tunnels = map[string]seedbed.Tunnel{"hv2": key, "hv3": key}
		}
		next.Nodes, next.Since, next.Revision = nodes, next.Revision, next.Revision+1
		if i == 0 {
			next.Since = state.Revision
		}
		if err := plane.Apply(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if whole := k.tries[len(k.tries)-1] == "apply"; whole != (i > 0) {
			t.Errorf("nodes %v: the whole state was applied: %t", nodes, whole)
		}
	}
	if s := plane.desired(next); len(s.Tunnels) != 1 || s.Tunnels[c] != key {
		t.Errorf("tunnels %v", s.Tunnels)
	}
	next.Nodes = map[string]netip.Addr{"hv1": a, "hv2": c, "hv3": c} // whose key would it be?
	if s := plane.desired(next); len(s.Tunnels) != 0 {
		t.Errorf("tunnels of two nodes with one address: %v", s.Tunnels)
	}
}
