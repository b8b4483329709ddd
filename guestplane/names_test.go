package guestplane

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

// TestNames: names that follow changes are those of the whole state.
func TestNames(t *testing.T) {
	t.Parallel()
	lab, shop, old := network0(), network0(), network0()
	lab.Name, shop.Name, old.Name = "lab", "shop/web", "old"
	lab.DNS, shop.DNS = []netip.Addr{seedbed.ResolverAddr}, []netip.Addr{seedbed.ResolverAddr}
	networks := []seedbed.Network{lab, shop, old}
	random := rand.New(rand.NewPCG(1, 2))
	one := func(i int) seedbed.Guest {
		g := seedbed.Guest{ID: seedbed.InstanceID(fmt.Sprint(i)), Name: fmt.Sprintf("Web%d", random.IntN(6)),
			Project: []string{"", "shop", "sea"}[random.IntN(3)]}
		for range random.IntN(4) {
			nic := seedbed.GuestNIC{Network: networks[random.IntN(3)].Name, Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(40))})}
			if random.IntN(8) == 0 {
				nic.Addr = netip.Addr{}
			}
			nic.Hidden = random.IntN(8) == 0
			g.NICs = append(g.NICs, nic)
		}
		return g
	}
	guests, others := map[int]seedbed.Guest{}, map[int]seedbed.Guest{}
	values := func(of map[int]seedbed.Guest) (all []seedbed.Guest) {
		for i := range 20 {
			if g, ok := of[i]; ok {
				all = append(all, g)
			}
		}
		return all
	}
	state := func(changed, peers []seedbed.InstanceID) seedbed.GuestPlaneState {
		s := withPeers(stateWith(networks, values(guests)...), values(others)...)
		s.Changed, s.ChangedPeers = changed, peers
		return s
	}
	change := func(of map[int]seedbed.Guest, i int) seedbed.InstanceID {
		if delete(of, i); random.IntN(3) > 0 {
			of[i] = one(i)
		}
		return seedbed.InstanceID(fmt.Sprint(i))
	}
	before := state(nil, nil)
	var followed names
	followed.replace(before)
	for range 300 {
		var changed, peers []seedbed.InstanceID
		for range random.IntN(3) {
			changed = append(changed, change(guests, random.IntN(20)))
		}
		for range random.IntN(3) {
			peers = append(peers, change(others, random.IntN(20)))
		}
		after := state(unique(changed), unique(peers))
		followed.change(before, after)
		var whole names
		whole.replace(after)
		sorted := cmpopts.SortSlices(func(a, b named) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
		same := cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})
		if diff := cmp.Diff(whole.of, followed.of, cmp.AllowUnexported(zone{}, named{}), sorted, same); diff != "" {
			t.Fatalf("after %v (-whole +followed):\n%s", changed, diff)
		}
		before = after
	}
}

func unique(ids []seedbed.InstanceID) (all []seedbed.InstanceID) {
	seen := map[seedbed.InstanceID]bool{}
	for _, id := range ids {
		if !seen[id] {
			all = append(all, id)
		}
		seen[id] = true
	}
	return all
}

func TestZoneOf(t *testing.T) {
	t.Parallel()
	shared := network0()
	shared.Name, shared.DNS = "lab", []netip.Addr{seedbed.ResolverAddr}
	nic := func(addr string) seedbed.GuestNIC {
		return seedbed.GuestNIC{Network: "lab", Addr: netip.MustParseAddr(addr)}
	}
	hidden := nic("10.0.0.9") // a job adds it
	hidden.Hidden = true
	var all names
	all.replace(stateWith([]seedbed.Network{shared},
		seedbed.Guest{ID: "1", Name: "web", NICs: []seedbed.GuestNIC{nic("10.0.0.1"), nic("10.0.0.2"), hidden}},
		seedbed.Guest{ID: "2", Name: "web", Project: "shop", NICs: []seedbed.GuestNIC{nic("10.0.0.3")}}))
	z := zoneOf{&all, "lab"}
	for name, want := range map[string]string{
		"web": "[10.0.0.1 10.0.0.2] true", "web.shop": "[10.0.0.3] true", "shop": "[] true", "other": "[] false",
	} {
		if addrs, ok := z.Addrs(name); fmt.Sprint(addrs, ok) != want {
			t.Errorf("%s: %v %t, want %s", name, addrs, ok, want)
		}
	}
	for host, want := range map[[2]string]string{
		{"web", "default"}: "[10.0.0.1 10.0.0.2] true", {"web", "shop"}: "[10.0.0.3] true", {"db", "shop"}: "[] false",
		{"web", "sea"}: "[] false",
	} {
		if addrs, ok := z.Host(host[0], host[1]); fmt.Sprint(addrs, ok) != want {
			t.Errorf("%v: %v %t, want %s", host, addrs, ok, want)
		}
	}
	for addr, want := range map[string]string{"10.0.0.2": "web", "10.0.0.3": "web.shop", "10.0.0.4": "", "10.0.0.9": ""} {
		if name, ok := z.Name(netip.MustParseAddr(addr)); name != want || ok != (want != "") {
			t.Errorf("%s: %q %t, want %q", addr, name, ok, want)
		}
	}
	for name, want := range map[string]string{
		"lab": "lab.internal", "a..b": "a-b.internal", "Lab.": "lab.internal", "shop/my_net": "my-net.shop.internal",
	} {
		n := seedbed.Network{Name: name, Kind: seedbed.NetworkNAT, Prefix: netip.MustParsePrefix("10.0.0.0/24"), DNS: shared.DNS}
		if n.GuestDomain() != want {
			t.Errorf("%s: %s, want %s", name, n.GuestDomain(), want)
		}
	}
	if addrs, ok := (zoneOf{&all, "none"}).Addrs("web"); ok {
		t.Errorf("of a network that is not served: %v", addrs)
	}
}

// TestNameOfAnother: a peer that is gone, but not yet known to be, has no part in what is known of the guest of this node
// that has its address now.
func TestNameOfAnother(t *testing.T) {
	t.Parallel()
	lan, other := network0(), network0()
	lan.Name, other.Name = "lan", "other"
	lan.DNS, other.DNS = []netip.Addr{seedbed.ResolverAddr}, []netip.Addr{seedbed.ResolverAddr}
	networks := []seedbed.Network{lan, other}
	nic := func(network, addr string) seedbed.GuestNIC {
		return seedbed.GuestNIC{Network: network, Addr: netip.MustParseAddr(addr)}
	}
	gone := seedbed.Guest{ID: "1", Name: "web", NICs: []seedbed.GuestNIC{nic("lan", "10.0.0.1"), nic("other", "10.0.0.9")}}
	for name, came := range map[string]seedbed.Guest{
		"of the same name": {ID: "2", Name: "web", NICs: []seedbed.GuestNIC{nic("lan", "10.0.0.1")}},
		"of another name":  {ID: "2", Name: "db", NICs: []seedbed.GuestNIC{nic("lan", "10.0.0.1")}},
	} {
		first := withPeers(stateWith(networks), gone)
		both := withPeers(stateWith(networks, came), gone)
		both.Changed = []seedbed.InstanceID{"2"}
		last := withPeers(stateWith(networks, came))
		last.ChangedPeers = []seedbed.InstanceID{"1"}
		var all names
		all.replace(first)
		all.change(first, both)
		check := func(when string) {
			z := zoneOf{&all, "lan"}
			addrs, _ := z.Addrs(came.Name)
			got, _ := z.Name(came.NICs[0].Addr)
			if fmt.Sprint(addrs) != "[10.0.0.1]" || got != came.Name || len(all.networksOf("lan", came.NICs[0].Addr)) > 0 {
				t.Errorf("one %s, %s: addresses %v, name %q, networks %v", name, when, addrs, got, all.networksOf("lan", came.NICs[0].Addr))
			}
		}
		check("beside the peer")
		all.replace(both)
		check("beside the peer, from the whole state")
		all.change(both, last)
		check("after the peer")
	}
}

// TestNamesOfPeers: the guests of a network ask for names, and for addresses, of its peers, and of no other network.
func TestNamesOfPeers(t *testing.T) {
	t.Parallel()
	lab, db, other := network0(), network0(), network0()
	for i, n := range []*seedbed.Network{&lab, &db, &other} {
		n.Name, n.DNS = []string{"lab", "acme/db", "other"}[i], []netip.Addr{seedbed.ResolverAddr}
	}
	lab.Peers, db.Peers, db.Domain = []string{"acme/db"}, []string{"lab"}, "example.org"
	addr := netip.MustParseAddr("10.98.0.7")
	p := &Plane{state: stateWith([]seedbed.Network{lab, db, other},
		seedbed.Guest{ID: "1", Name: "pg", Project: "acme", NICs: []seedbed.GuestNIC{{Network: "acme/db", Addr: addr}}})}
	p.names.replace(p.state)
	zones := p.others(lab)(netip.MustParseAddr("10.99.0.9"))
	if len(zones) != 1 || zones[0].Domain != "db.acme.internal" {
		t.Fatalf("zones of peers: %+v", zones)
	}
	addrs, _ := zones[0].Names.Addrs("pg")
	name, _ := zones[0].Names.Name(addr)
	if len(addrs) != 1 || addrs[0] != addr || name != "pg" {
		t.Errorf("pg of the peer: %v, and %s: %q", addrs, addr, name)
	}
	if zones := p.others(other)(addr); len(zones) != 0 {
		t.Errorf("a network without peers: %+v", zones)
	}
}
