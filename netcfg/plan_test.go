package netcfg

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"seedbed"
)

func testNetwork() seedbed.Network {
	return seedbed.Network{
		Name: "default", Bridge: "seedbed0", MAC: seedbed.MAC{0x52, 0x54, 0, 1, 2, 3},
		Prefix: netip.MustParsePrefix("10.213.0.0/24"), Gateway: netip.MustParseAddr("10.213.0.1"), NAT: true,
	}
}

func testPort() Port {
	return Port{Tap: "sb1", MAC: seedbed.MAC{0x52, 0x54, 0, 0, 0, 1}, Addr: netip.MustParseAddr("10.213.0.9"), Mark: 1, Bridge: "seedbed0"}
}

func TestNewPlan(t *testing.T) {
	t.Parallel()
	other := func(change func(*seedbed.Network)) func(*State) {
		return func(s *State) {
			n := testNetwork()
			n.Name, n.Bridge, n.Prefix, n.Gateway = "lab", "seedbed1", netip.MustParsePrefix("10.214.0.0/24"), netip.MustParseAddr("10.214.0.1")
			change(&n)
			s.Networks = append(s.Networks, n)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*State)
		want   string // part of the message; empty for a good state
	}{
		{"good", func(*State) {}, ""},
		{"two networks", other(func(*seedbed.Network) {}), ""},
		{"no network", func(s *State) { *s = State{} }, ""},
		{"network without a name", func(s *State) { s.Networks[0].Name = "" }, "network name"},
		{"bridge name too long", func(s *State) { s.Networks[0].Bridge = "sixteen-letters-" }, "is not an interface name"},
		{"bridge name with a slash", func(s *State) { s.Networks[0].Bridge = "../conf" }, "is not an interface name"},
		{"multicast MAC", func(s *State) { s.Networks[0].MAC[0] = 1 }, "not a unicast address"},
		{"no MAC", func(s *State) { s.Networks[0].MAC = seedbed.MAC{} }, "not a unicast address"},
		{"prefix with host bits", func(s *State) { s.Networks[0].Prefix = netip.MustParsePrefix("10.213.0.1/24") }, "not usable"},
		{"IPv6 prefix", func(s *State) { s.Networks[0].Prefix = netip.MustParsePrefix("fd00::/64") }, "not usable"},
		{"no prefix", func(s *State) { s.Networks[0].Prefix = netip.Prefix{} }, "not usable"},
		{"prefix with the metadata address", func(s *State) { s.Networks[0].Prefix = netip.MustParsePrefix("169.254.0.0/16") }, "metadata address"},
		{"gateway outside", func(s *State) { s.Networks[0].Gateway = netip.MustParseAddr("10.0.0.1") }, "gateway"},
		{"gateway is the broadcast address", func(s *State) { s.Networks[0].Gateway = netip.MustParseAddr("10.213.0.255") }, "gateway"},
		{"IPv6 DNS", func(s *State) { s.Networks[0].DNS = []netip.Addr{netip.IPv6Loopback()} }, "DNS server"},
		{"name twice", other(func(n *seedbed.Network) { n.Name = "default" }), "given twice"},
		{"bridge twice", other(func(n *seedbed.Network) { n.Bridge = "seedbed0" }), "same bridge"},
		{"overlap", other(func(n *seedbed.Network) {
			n.Prefix, n.Gateway = netip.MustParsePrefix("10.213.0.128/25"), netip.MustParseAddr("10.213.0.129")
		}), "overlap"},
		{"tap without a name", func(s *State) { s.Ports[0].Tap = "" }, "not an interface name"},
		{"tap twice", func(s *State) { s.Ports = append(s.Ports, s.Ports[0]) }, "given twice"},
		{"unknown bridge", func(s *State) { s.Ports[0].Bridge = "br9" }, "belongs to no network"},
		{"port without mark", func(s *State) { s.Ports[0].Mark = 0 }, "names nobody"},
		{"port without MAC", func(s *State) { s.Ports[0].MAC = seedbed.MAC{} }, "not a unicast address"},
		{"port with the gateway's address", func(s *State) { s.Ports[0].Addr = s.Networks[0].Gateway }, "not a guest's address"},
		{"port outside its network", func(s *State) { s.Ports[0].Addr = netip.MustParseAddr("10.0.0.7") }, "not a guest's address"},
		{"port without address", func(s *State) { s.Ports[0].Addr = netip.Addr{} }, "not a guest's address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := State{Networks: []seedbed.Network{testNetwork()}, Ports: []Port{testPort()}}
			tt.change(&s)
			_, err := newPlan(s, Options{})
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
}

// TestVersion: it follows the rules and not the elements.
func TestVersion(t *testing.T) {
	t.Parallel()
	versions := func(s State, o Options) [2]string {
		t.Helper()
		p, err := newPlan(s, o)
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
	s := State{Networks: []seedbed.Network{testNetwork()}, Ports: []Port{testPort()}}
	base := versions(s, Options{})
	if got := versions(State{Networks: s.Networks}, Options{MetadataPort: 80}); got != base {
		t.Error("a port less changed the rules")
	}
	port := versions(s, Options{MetadataPort: 7380})
	if port[0] != base[0] || port[1] == base[1] {
		t.Error("another metadata port must change the inet table alone")
	}
	s.Networks[0].NAT = false
	if got := versions(s, Options{}); got[0] != base[0] || got[1] == base[1] {
		t.Error("NAT off must change the inet table alone")
	}
}
