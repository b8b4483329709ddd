//go:build integration

package netcfg

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// secondNetwork adds a network of a kind to s, with the port sb3.
func secondNetwork(s *lists, kind seedbed.NetworkKind, prefix string) {
	p := netip.MustParsePrefix(prefix)
	s.Networks = append(s.Networks, seedbed.Network{Name: "acme/lab", Kind: kind, NAT: kind == seedbed.NetworkNAT, Bridge: "sb-lab",
		MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 2}, Prefix: p, Gateway: p.Addr().Next()})
	s.Ports = append(s.Ports, Port{Tap: "sb3", MAC: seedbed.MAC{2, 0, 0, 0, 0, 3}, Addr: p.Addr().Next().Next(), Mark: 103, Bridge: "sb-lab"})
}

// secondGuest is the guest behind sb3, with the prefix of its network.
func secondGuest(t *testing.T, prefix string) (*netnstest.Namespace, string) {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	addr := p.Addr().Next().Next()
	g := netnstest.New(t)
	netnstest.Veth(t, "sb3", g, "02:00:00:00:00:03")
	netnstest.Run(t, "ip", "link", "set", "sb3", "master", "sb-lab")
	g.Run(t, "ip", "addr", "add", netip.PrefixFrom(addr, p.Bits()).String(), "dev", "eth0")
	g.Run(t, "ip", "route", "add", "default", "via", p.Addr().Next().String())
	serveIn(t, g, ":8080")
	return g, addr.String()
}

// TestKinds asks in both directions between the guests of a network of each kind, those of a network with NAT, and a
// host outside.
func TestKinds(t *testing.T) {
	const prefix = "10.78.0.0/24"
	for kind, want := range map[seedbed.NetworkKind]struct{ out, in string }{
		seedbed.NetworkNAT:      {out: "198.51.100.1 mark 0"},
		seedbed.NetworkRouted:   {out: "10.78.0.2 mark 0", in: "198.51.100.2 mark 0"},
		seedbed.NetworkIsolated: {},
	} {
		t.Run(string(kind), func(t *testing.T) {
			m := open(t)
			s := state0()
			secondNetwork(&s, kind, prefix)
			apply(t, m, s, Options{})
			w := world(t)
			serveIn(t, w, "198.51.100.2:8080")
			serve(t, "169.254.169.254:80")
			g1 := guest(t, "sb1", mac1, ip1)
			serveIn(t, g1, ":8080")
			g3, addr := secondGuest(t, prefix)
			ask(t, "out", g3, "198.51.100.2:8080", want.out)
			ask(t, "in", w, addr+":8080", want.in)
			ask(t, "to another network", g3, ip1.String()+":8080", "")
			ask(t, "from another network", g1, addr+":8080", "")
			ask(t, "metadata", g3, metadata, addr+" mark 103")
			askHere(t, "from the node", addr+":8080", "10.78.0.1 mark 0")
		})
	}
}

// TestKindChanges makes an isolated network a routed one and back, while its guest runs.
func TestKindChanges(t *testing.T) {
	const prefix = "10.78.0.0/24"
	m := open(t)
	s := state0()
	secondNetwork(&s, seedbed.NetworkIsolated, prefix)
	apply(t, m, s, Options{})
	w := world(t)
	serveIn(t, w, "198.51.100.2:8080")
	_, addr := secondGuest(t, prefix)
	for _, tt := range []struct {
		kind seedbed.NetworkKind
		in   string
	}{{seedbed.NetworkRouted, "198.51.100.2 mark 0"}, {seedbed.NetworkIsolated, ""}} {
		s.Networks[1].Kind = tt.kind
		apply(t, m, s, Options{})
		ask(t, string(tt.kind)+": in", w, addr+":8080", tt.in)
	}
}

// TestMTU sets the MTU of a bridge, changes it, and takes it back.
func TestMTU(t *testing.T) {
	m := open(t)
	s := state0()
	for _, mtu := range []int{9000, 1400, 0} {
		s.Networks[0].MTU = mtu
		apply(t, m, s, Options{})
		link, err := net.InterfaceByName(s.Networks[0].Bridge)
		if err != nil {
			t.Fatal(err)
		}
		if link.MTU != cmp.Or(mtu, 1500) {
			t.Errorf("MTU %d on the bridge of a network with %d", link.MTU, mtu)
		}
	}
}

// TestNodesOwnRoutes: a network whose guests would take the addresses of the node's neighbours is left out, the others
// are applied. Once its bridge exists, it stays.
func TestNodesOwnRoutes(t *testing.T) {
	for prefix, reason := range map[string]string{
		"198.51.100.0/25": "overlaps 198.51.100.0/24, which this node reaches on",
		"198.51.0.0/16":   "overlaps 198.51.100.0/24",
		"10.20.0.0/24":    "", // cut out of what a router has
		"10.30.0.0/16":    "overlaps 10.30.5.0/24",
	} {
		t.Run(prefix, func(t *testing.T) {
			m := open(t)
			world(t)
			netnstest.Run(t, "ip", "route", "add", "10.0.0.0/8", "via", "198.51.100.2")
			netnstest.Run(t, "ip", "route", "add", "10.30.5.0/24", "via", "198.51.100.2")
			s := state0()
			secondNetwork(&s, seedbed.NetworkNAT, prefix)
			err := m.Apply(t.Context(), s.state(), Options{})
			var left *LeftOut
			switch {
			case reason == "" && err != nil:
				t.Errorf("Apply = %v", err)
			case reason != "" && (!errors.As(err, &left) || !errors.Is(err, seedbed.ErrConflict) || left.Networks["acme/lab"] == nil ||
				!strings.Contains(err.Error(), reason)):
				t.Errorf("Apply = %v, want it to leave acme/lab out since it %s", err, reason)
			}
			if _, err := net.InterfaceByName("sb-lab"); (err == nil) != (reason == "") {
				t.Errorf("the bridge of the network: %v", err)
			}
			if reason == "" { // a route that comes later does not take the network away
				netnstest.Run(t, "ip", "route", "add", "10.20.0.128/25", "via", "198.51.100.2")
				apply(t, m, s, Options{})
			}
		})
	}
}
