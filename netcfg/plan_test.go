package netcfg

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/netcfg/wireguard"
)

func testNetwork() seedbed.Network {
	return seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.MAC{0x52, 0x54, 0, 1, 2, 3},
		Prefix: netip.MustParsePrefix("10.213.0.0/24"), Gateway: netip.MustParseAddr("10.213.0.1"), NAT: true,
	}
}

// lists is a State whose ports are in a list.
type lists struct {
	Groups   []seedbed.SecurityGroup
	Networks []seedbed.Network
	Ports    []Port
	Peers    []Peer
	Address  netip.Addr
	Nodes    []netip.Addr
	Tunnels  map[netip.Addr]seedbed.Tunnel
}

func (l lists) state() State {
	return State{Networks: l.Networks, Ports: slices.Values(l.Ports), Groups: l.Groups, Peers: slices.Values(l.Peers),
		Address: l.Address, Nodes: l.Nodes, Tunnels: l.Tunnels}
}

func testPort() Port {
	return Port{Tap: "sb1", MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}, Addr: netip.MustParseAddr("10.213.0.9"), Mark: 1, Bridge: "seedbed0"}
}

func TestNewPlan(t *testing.T) {
	t.Parallel()
	other := func(change func(*seedbed.Network)) func(*lists) {
		return func(s *lists) {
			n := testNetwork()
			n.Name, n.Bridge, n.Prefix, n.Gateway = "lab", "seedbed1", netip.MustParsePrefix("10.214.0.0/24"), netip.MustParseAddr("10.214.0.1")
			change(&n)
			s.Networks = append(s.Networks, n)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*lists)
		want   string // part of the message; empty for a good state
	}{
		{"good", func(*lists) {}, ""},
		{"two networks", other(func(*seedbed.Network) {}), ""},
		{"no network", func(s *lists) { *s = lists{} }, ""},
		{"name twice", other(func(n *seedbed.Network) { n.Name = "default" }), "given twice"},
		{"bridge twice", other(func(n *seedbed.Network) { n.Bridge = "seedbed0" }), "same bridge"},
		{"overlap", other(func(n *seedbed.Network) {
			n.Prefix, n.Gateway = netip.MustParsePrefix("10.213.0.128/25"), netip.MustParseAddr("10.213.0.129")
		}), "both reach outside"},
		{"overlap where one has NAT", other(func(n *seedbed.Network) {
			n.Prefix, n.Gateway, n.NAT = netip.MustParsePrefix("10.213.0.0/24"), netip.MustParseAddr("10.213.0.1"), false
		}), ""},
		{"tap without a name", func(s *lists) { s.Ports[0].Tap = "" }, "not an interface name"},
		{"tap twice", func(s *lists) { s.Ports = append(s.Ports, s.Ports[0]) }, "given twice"},
		{"unknown bridge", func(s *lists) { s.Ports[0].Bridge = "br9" }, "belongs to no network"},
		{"port without mark", func(s *lists) { s.Ports[0].Mark = 0 }, "mark 0 is reserved"},
		{"port without MAC", func(s *lists) { s.Ports[0].MAC = seedbed.MAC{} }, "not a unicast address"},
		{"port with the gateway's address", func(s *lists) { s.Ports[0].Addr = s.Networks[0].Gateway }, "not a guest's address"},
		{"port outside its network", func(s *lists) { s.Ports[0].Addr = netip.MustParseAddr("10.0.0.7") }, "not a guest's address"},
		{"port without address", func(s *lists) { s.Ports[0].Addr = netip.Addr{} }, "not a guest's address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := lists{Networks: []seedbed.Network{testNetwork()}, Ports: []Port{testPort()}}
			tt.change(&s)
			_, err := newPlan(s.state(), Options{})
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("newPlan: %v", err)
			case tt.want != "" && (!errors.Is(err, seedbed.ErrInvalid) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("newPlan gave %v, want ErrInvalid with %q", err, tt.want)
			}
		})
	}
	if _, err := newPlan(State{}, Options{MetadataPort: 70000}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("metadata port 70000: %v, want ErrInvalid", err)
	}
	for _, n := range []int{-2, maxFragments + 1} {
		if _, err := newPlan(State{}, Options{Fragments: n}); !errors.Is(err, seedbed.ErrInvalid) {
			t.Errorf("%d fragments a second: %v, want ErrInvalid", n, err)
		}
	}
}

// TestVersion: it follows the rules and not the elements, which are all that networks and ports are.
func TestVersion(t *testing.T) {
	t.Parallel()
	versions := func(s lists, o Options) [2]string {
		t.Helper()
		p, err := newPlan(s.state(), o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := bridgeTable(p).version()
		if err != nil {
			t.Fatal(err)
		}
		i, err := inetTable(p).version()
		if err != nil {
			t.Fatal(err)
		}
		return [2]string{b, i}
	}
	s := lists{Networks: []seedbed.Network{testNetwork()}, Ports: []Port{testPort()}}
	base := versions(s, Options{})
	if got := versions(lists{Networks: s.Networks}, Options{MetadataPort: 80}); got != base {
		t.Error("a port less changed the rules")
	}
	port := versions(s, Options{MetadataPort: 7380})
	if port[0] != base[0] || port[1] == base[1] {
		t.Error("another metadata port must change the inet table alone")
	}
	for _, n := range []int{NoBound, 1, maxFragments} {
		if got := versions(s, Options{Fragments: n}); got[0] != base[0] || got[1] == base[1] {
			t.Errorf("%d fragments must change the inet table alone", n)
		}
	}
	s.Networks[0].Kind, s.Networks[0].NAT = seedbed.NetworkRouted, false
	if got := versions(s, Options{}); got != base {
		t.Error("a network of another kind changed the rules")
	}
	if got := versions(lists{}, Options{}); got != base {
		t.Error("no network changed the rules")
	}
}

// TestWith: the ports of a plan after some came, changed and went.
// TestDigestOfNetworks checks that a change of a network that the sets depend on is one of the digest, without which the
// rules of a running node would stay as they are.
func TestDigestOfNetworks(t *testing.T) {
	t.Parallel()
	digest := func(change func(*seedbed.Network)) string {
		n := testNetwork()
		n.Kind, n.NAT = seedbed.NetworkRouted, false
		change(&n)
		p, err := newPlan(lists{Networks: []seedbed.Network{n}, Ports: []Port{testPort()}}.state(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p.digest()
	}
	before := digest(func(*seedbed.Network) {})
	for name, change := range map[string]func(*seedbed.Network){
		"MAC":         func(n *seedbed.Network) { n.MAC[5]++ },
		"kind":        func(n *seedbed.Network) { n.Kind = seedbed.NetworkIsolated },
		"NAT":         func(n *seedbed.Network) { n.Kind, n.NAT = seedbed.NetworkNAT, true },
		"DHCP":        func(n *seedbed.Network) { n.DHCP = !n.DHCP },
		"DNS":         func(n *seedbed.Network) { n.DNS = []netip.Addr{seedbed.ResolverAddr} },
		"NTP":         func(n *seedbed.Network) { n.NTP = []netip.Addr{seedbed.TimeAddr} },
		"permissions": func(n *seedbed.Network) { n.Allow.Addresses = true },
	} {
		if digest(change) == before {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	port := func(tap string, mark uint32) Port {
		p := testPort()
		p.Tap, p.Mark = tap, mark
		return p
	}
	p, err := newPlan(lists{Networks: []seedbed.Network{testNetwork()}, Ports: []Port{port("sb2", 2), port("sb4", 4),
		port("sb6", 6)}}.state(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := p.digest()
	for _, tt := range []struct {
		name  string
		gone  []string
		ports []Port
		want  string
	}{
		{"nothing", nil, nil, "sb2=2 sb4=4 sb6=6"},
		{"first, middle and last come", nil, []Port{port("sb7", 7), port("sb1", 1), port("sb5", 5)}, "sb1=1 sb2=2 sb4=4 sb5=5 sb6=6 sb7=7"},
		{"one changes", nil, []Port{port("sb4", 44)}, "sb2=2 sb4=44 sb6=6"},
		{"one changes and is named as gone", []string{"sb4"}, []Port{port("sb4", 44)}, "sb2=2 sb4=44 sb6=6"},
		{"some go", []string{"sb6", "sb2", "sb9"}, nil, "sb4=4"},
		{"all go", []string{"sb6", "sb2", "sb4"}, nil, ""},
	} {
		out, err := p.with(Diff{Gone: tt.gone, Ports: tt.ports})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, q := range out.ports {
			got = append(got, fmt.Sprintf("%s=%d", q.name(), q.mark))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
		if same := out.digest() == before; same != (tt.name == "nothing") {
			t.Errorf("%s: the digest is the same: %v", tt.name, same)
		}
	}
	if _, err := p.with(Diff{Ports: []Port{port("sb8", 0)}}); !errors.Is(err, seedbed.ErrInvalid) {
		t.Errorf("a port without mark: %v", err)
	}
}

// TestZones: each network has another zone, and keeps it when others come and go.
func TestZones(t *testing.T) {
	t.Parallel()
	of := func(bridges ...string) map[string]uint16 {
		p := &plan{}
		for _, b := range bridges {
			p.networks = append(p.networks, seedbed.Network{Bridge: b})
		}
		return p.zones()
	}
	var names []string
	for n := range 1000 {
		names = append(names, fmt.Sprintf("br%04d", n))
	}
	taken := map[uint16]string{0: "no network"}
	for name, zone := range of(names...) {
		if other, ok := taken[zone]; ok {
			t.Errorf("%s has zone %d, which is that of %s", name, zone, other)
		}
		taken[zone] = name
	}
	if alone, among := of("seedbed0"), of("lab0", "seedbed0", "seedbed1"); alone["seedbed0"] != among["seedbed0"] {
		t.Errorf("zone %d, and with other networks %d", alone["seedbed0"], among["seedbed0"])
	}
}

// TestReach: a node that encrypts reaches those that do too, at the addresses of their keys, and a node that does not only the others.
func TestReach(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	own, plain, keyed, other, sameA, sameB := addr("192.0.2.1"), addr("192.0.2.2"), addr("192.0.2.3"), addr("2001:db8::4"),
		addr("192.0.2.5"), addr("192.0.2.6")
	key, err := wireguard.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := testNetwork()
	n.VNI, n.MTU = 7, 1370
	tunnel := func(k byte) seedbed.Tunnel { return seedbed.Tunnel{Key: seedbed.TunnelKey{k}, Port: 51820} }
	s := State{Networks: []seedbed.Network{n}, Address: own, Nodes: []netip.Addr{own, plain, keyed, other, sameA, sameB},
		Tunnels: map[netip.Addr]seedbed.Tunnel{keyed: tunnel(3), other: tunnel(4), sameA: tunnel(5), sameB: tunnel(5)}}
	group := addr("239.1.2.3")
	for _, tt := range []struct {
		name     string
		overlay  Overlay
		reached  map[netip.Addr]netip.Addr
		receives []netip.Addr
		peers    int
		checks   []string
	}{
		{"in plain", Overlay{}, map[netip.Addr]netip.Addr{plain: plain}, []netip.Addr{own}, 0,
			[]string{"sends nothing to the nodes that do: 192.0.2.3, 2001:db8::4, 192.0.2.5, 192.0.2.6"}},
		{"a group", Overlay{Group: group}, map[netip.Addr]netip.Addr{plain: plain}, []netip.Addr{own, group}, 0, nil},
		{"encrypted", Overlay{Encryption: &key, Port: 51820}, map[netip.Addr]netip.Addr{keyed: tunnel(3).Key.Addr()},
			[]netip.Addr{key.Public().Addr()}, 1,
			[]string{"whose key it does not know: 192.0.2.2", "the same key as another, and get nothing: 192.0.2.5, 192.0.2.6"}},
	} {
		p, err := newPlan(s, Options{Overlay: tt.overlay})
		if err != nil {
			t.Fatal(err)
		}
		reached := map[netip.Addr]netip.Addr{}
		for _, a := range append(s.Nodes, netip.Addr{}) {
			if at := p.reach(a); at.IsValid() {
				reached[a] = at
			}
		}
		if !maps.Equal(reached, tt.reached) || !slices.Equal(p.receives, tt.receives) {
			t.Errorf("%s: reaches %v and receives at %v, want %v and %v", tt.name, reached, p.receives, tt.reached, tt.receives)
		}
		if peers := p.tunnelPeers(); p.encrypts() && len(peers) != tt.peers {
			t.Errorf("%s: tunnels %v", tt.name, peers)
		}
		text := fmt.Sprint(p.checkTunnels())
		for _, want := range tt.checks {
			if !strings.Contains(text, want) {
				t.Errorf("%s: checks %s, want %q", tt.name, text, want)
			}
		}
	}
}

// TestOverlayRoom: an overlay needs room for what it is wrapped in.
func TestOverlayRoom(t *testing.T) {
	t.Parallel()
	key, err := wireguard.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := testNetwork()
	n.VNI = 7
	for _, tt := range []struct {
		addr    string
		overlay Overlay
		room    int
	}{
		{"192.0.2.1", Overlay{}, 1450},
		{"2001:db8::1", Overlay{}, 1430},
		{"192.0.2.1", Overlay{Encryption: &key}, 1370},
		{"2001:db8::1", Overlay{Encryption: &key}, 1350},
	} {
		for more, want := range []error{nil, seedbed.ErrConflict} {
			n.MTU = tt.room + more
			s := State{Networks: []seedbed.Network{n}, Address: netip.MustParseAddr(tt.addr)}
			p, err := newPlan(s, Options{Overlay: tt.overlay})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.overlayOf(n, link{index: 1, name: "eth0", mtu: 1500}); !errors.Is(err, want) {
				t.Errorf("MTU %d at %s, encrypted %t: %v, want %v", n.MTU, tt.addr, p.encrypts(), err, want)
			}
		}
	}
}

// TestTunnelRoom: an interface with IPv6 has room for 1,280 bytes at least, and tunnels stay when their only overlay is left out.
func TestTunnelRoom(t *testing.T) {
	t.Parallel()
	key, err := wireguard.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := testNetwork()
	n.VNI, n.MTU = 7, 1280
	for addr, least := range map[string]int{"192.0.2.1": 1340, "2001:db8::1": 1360} {
		s := State{Networks: []seedbed.Network{n}, Address: netip.MustParseAddr(addr)}
		p, err := newPlan(s, Options{Overlay: Overlay{Encryption: &key, Port: 51820}})
		if err != nil {
			t.Fatal(err)
		}
		for mtu, fits := range map[int]bool{least: true, least - 1: false} {
			links := map[string]link{"eth0": {index: 1, name: "eth0", mtu: mtu}}
			err := p.hindrance(links, []address{{prefix: netip.PrefixFrom(s.Address, s.Address.BitLen()), index: 1}})
			if fits != (err == nil) || !fits && !strings.Contains(err.Error(), fmt.Sprintf("give it at least %d", least)) {
				t.Errorf("MTU %d at %s: %v", mtu, addr, err)
			}
		}
		if out := p.only(func(seedbed.Network) bool { return false }); !out.tunnelled {
			t.Error("without its overlay, the plan has no tunnels")
		}
	}
}

// TestDigestOfGroups checks that the number of each group that the sets depend on is in the digest: two names may have the same hash.
func TestDigestOfGroups(t *testing.T) {
	t.Parallel()
	rules := []seedbed.SecurityRule{{Direction: seedbed.DirectionIn, Protocol: "tcp", Ports: "5432", Group: "db"}}
	g := newGroups([]seedbed.SecurityGroup{{Name: "web", Rules: rules}, {Name: "db"}, {Name: "app"}, {Name: "other"}}, nil)
	g.portClass([]string{"web"})
	before := g.digest()
	same := func(name string) bool {
		g.numbers[name]++
		defer func() { g.numbers[name]-- }()
		g.sum = ""
		return g.digest() == before
	}
	if same("db") {
		t.Error("the number of a group that is only named is not in the digest")
	}
	g.class([]string{"app", "db"})
	before = g.digest()
	for name, want := range map[string]bool{"web": false, "db": false, "app": false, "other": true} {
		if got := same(name); got != want {
			t.Errorf("with another number of %s, the digest is the same: %t", name, got)
		}
	}
}
