//go:build integration

package netcfg

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// echoes reports whether an address answers a ping within a second.
func echoes(n *netnstest.Namespace, addr string, more ...string) bool {
	var err error
	n.Do(func() { err = netnstest.Try("ping", append([]string{"-n", "-c", "1", "-W", "1", addr}, more...)...) })
	return err == nil
}

// answers is echoes, tried for a while if an answer is wanted: an address may not be ready yet.
func answers(want bool, n *netnstest.Namespace, addr string, more ...string) bool {
	for end := time.Now().Add(patience); ; {
		if got := echoes(n, addr, more...); got || !want || time.Now().After(end) {
			return got
		}
	}
}

// TestUnknownGuests: the node does not ask on the link for an address that no guest has, whoever sends to it. Otherwise its
// neighbour table would soon be full. Guests are reached at all of their addresses, also by way of the node.
func TestUnknownGuests(t *testing.T) {
	m := open(t)
	s := state0()
	secondNetwork(&s, seedbed.NetworkRouted, "10.80.0.0/16")
	n := &s.Networks[1]
	n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:2::/64")
	s.Ports[2].Secondary = []netip.Addr{netip.MustParseAddr("10.80.9.9"), netip.MustParseAddr("fd12:3456:789a:2::99:9")}
	s.Ports = append(s.Ports, Port{Tap: "sb4", MAC: seedbed.MAC{2, 0, 0, 0, 0, 4}, Addr: netip.MustParseAddr("10.80.0.4"), Mark: 104,
		Bridge: "sb-lab"})
	apply(t, m, s, Options{})
	w := world(t)
	netnstest.Run(t, "ip", "-6", "addr", "add", "2001:db8:9::1/64", "dev", "uplink", "nodad")
	w.Run(t, "ip", "-6", "addr", "add", "2001:db8:9::2/64", "dev", "eth0", "nodad")
	w.Run(t, "ip", "-6", "route", "add", "fd12:3456:789a:2::/64", "via", "2001:db8:9::1")
	g3, _ := secondGuest(t, "10.80.0.0/16")
	g3.Run(t, "ip", "addr", "add", "10.80.9.9/16", "dev", "eth0")
	g4 := netnstest.New(t)
	netnstest.Veth(t, "sb4", g4, "02:00:00:00:00:04")
	netnstest.Run(t, "ip", "link", "set", "sb4", "master", "sb-lab")
	g4.Run(t, "ip", "addr", "add", "10.80.0.4/16", "dev", "eth0")
	g4.Run(t, "ip", "route", "add", "default", "via", "10.80.0.1")
	for i, g := range []*netnstest.Namespace{g3, g4} {
		g.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.eth0.accept_redirects=0")
		g.Run(t, "ip", "-6", "addr", "add", n.Addr6(s.Ports[2+i].MAC).String()+"/64", "dev", "eth0", "nodad")
		g.Run(t, "ip", "-6", "route", "replace", "default", "via", "fe80::a9fe:a9fe", "dev", "eth0")
	}
	g4.Run(t, "sysctl", "-w", "net.ipv4.conf.all.accept_redirects=0", "net.ipv4.conf.eth0.accept_redirects=0")
	g3.Run(t, "ip", "-6", "addr", "add", "fd12:3456:789a:2::99:9/64", "dev", "eth0", "nodad")
	known := []string{"10.80.0.2", "10.80.9.9", n.Addr6(s.Ports[2].MAC).String(), "fd12:3456:789a:2::99:9"}
	unknown := []string{"10.80.77.7", "fd12:3456:789a:2::77"}
	for _, a := range append(known, unknown...) {
		via := []string{"route", "replace", a + "/32", "via", "10.80.0.1"}
		if strings.Contains(a, ":") {
			via = []string{"-6", "route", "replace", a + "/128", "via", "fe80::a9fe:a9fe", "dev", "eth0"}
		}
		g4.Run(t, "ip", via...)
	}
	via := func(link string) {
		ifi, err := net.InterfaceByName(link)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []string{"10.80.0.1", "fe80::a9fe:a9fe"} {
			g4.Run(t, "ip", "neigh", "replace", a, "lladdr", ifi.HardwareAddr.String(), "dev", "eth0", "nud", "permanent")
		}
	}
	for _, tt := range []struct {
		who  string
		from *netnstest.Namespace
		link string
	}{{"outside", w, "sb-lab"}, {"a guest by way of the node", g4, "sb-lab"}, {"a guest by way of its own port", g4, "sb4"}} {
		via(tt.link)
		netnstest.Run(t, "ip", "neigh", "flush", "dev", "sb-lab")
		for _, a := range known {
			if !answers(true, tt.from, a) {
				t.Errorf("%s does not reach %s", tt.who, a)
			}
		}
		for _, a := range unknown {
			echoes(tt.from, a)
			if out := netnstest.Run(t, "ip", "neigh", "show", "to", a, "dev", "sb-lab"); out != "" {
				t.Errorf("%s made the node ask for %s: %s", tt.who, a, out)
			}
		}
	}
	// An address goes from one guest to the other, and is reached all the time.
	s.Ports[3].Secondary = s.Ports[2].Secondary
	apply(t, m, s, Options{})
	s.Ports[2].Secondary = nil
	if err := m.Change(t.Context(), Diff{Gone: []string{"sb3"}, Ports: s.Ports[2:3]}); err != nil {
		t.Fatal(err)
	}
	g3.Run(t, "ip", "addr", "del", "10.80.9.9/16", "dev", "eth0")
	g4.Run(t, "ip", "route", "del", "10.80.9.9/32")
	g4.Run(t, "ip", "addr", "add", "10.80.9.9/16", "dev", "eth0")
	netnstest.Run(t, "ip", "neigh", "flush", "dev", "sb-lab")
	if !answers(true, w, "10.80.9.9") {
		t.Error("the address is not reached at the guest that has it now")
	}
	// Nobody outside passes for a guest.
	w.Run(t, "ip", "-6", "addr", "add", "fd12:3456:789a:2::99/128", "dev", "eth0", "nodad")
	if echoes(w, known[2], "-I", "fd12:3456:789a:2::99") {
		t.Error("a host outside passes for a guest")
	}
	if out := netnstest.Run(t, "nft", "list", "chain", "inet", "seedbed", "forward"); !regexp.MustCompile(
		`packets [1-9].*from outside with an IPv6 address of the network`).MatchString(out) {
		t.Errorf("nothing from outside with an address of the network was dropped:\n%s", out)
	}
}

// TestSecondaryAddresses: a guest sends from its secondary addresses as long as it has them, and from no other's.
func TestSecondaryAddresses(t *testing.T) {
	m := open(t)
	s := state0()
	further := netip.MustParseAddr("10.77.0.50")
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	serve(t, metadata)
	g1.Run(t, "ip", "addr", "add", further.String()+"/24", "dev", "eth0")
	g1.Run(t, "ip", "route", "replace", "169.254.169.254", "dev", "eth0", "src", further.String())
	for i, secondary := range [][]netip.Addr{nil, {further}, {netip.MustParseAddr("10.77.0.40"), further}, nil, {further}} {
		s.Ports[0].Secondary = secondary
		if i%2 == 0 {
			apply(t, m, s, Options{})
		} else if err := m.Change(t.Context(), Diff{Gone: []string{"sb1"}, Ports: s.Ports[:1]}); err != nil {
			t.Fatal(err)
		}
		g1.Run(t, "ip", "neigh", "flush", "dev", "eth0")
		g2.Run(t, "ip", "neigh", "flush", "dev", "eth0")
		netnstest.Run(t, "ip", "neigh", "flush", "dev", "seedbed0")
		want := ""
		if secondary != nil {
			want = further.String() + " mark 101"
		}
		ask(t, fmt.Sprint(i, secondary), g1, metadata, want)
		if got := answers(secondary != nil, g2, further.String()); got != (secondary != nil) {
			t.Errorf("%d: with %v, the neighbour reaches it: %t", i, secondary, got)
		}
	}
	// Another's secondary address is no guest's own.
	g1.Run(t, "ip", "addr", "del", further.String()+"/24", "dev", "eth0")
	g2.Run(t, "ip", "addr", "add", further.String()+"/24", "dev", "eth0")
	g2.Run(t, "ip", "route", "replace", "169.254.169.254", "dev", "eth0", "src", further.String())
	ask(t, "with another's", g2, metadata, "")

	s.Ports[0].Secondary = []netip.Addr{gw}
	const says = "expected those of guests in 10.77.0.0/24"
	if err := m.Apply(t.Context(), s.state(), Options{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the address of the node as a secondary one: %v", err)
	}
}

// TestSecondaryAddresses6: so it is with those of IPv6, in packets and in neighbour discovery.
func TestSecondaryAddresses6(t *testing.T) {
	m := open(t)
	s := state0()
	n := &s.Networks[0]
	n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	further, more := netip.MustParseAddr("fd12:3456:789a:1::50"), netip.MustParseAddr("fd12:3456:789a:1::40")
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	first := [2]string{n.Addr6(s.Ports[0].MAC).String(), n.Addr6(s.Ports[1].MAC).String()}
	for i, g := range []*netnstest.Namespace{g1, g2} {
		g.Run(t, "sysctl", "-w", "net.ipv6.conf.eth0.accept_dad=0")
		g.Run(t, "ip", "-6", "addr", "add", first[i]+"/64", "dev", "eth0", "nodad")
	}
	g1.Run(t, "ip", "-6", "addr", "add", further.String()+"/64", "dev", "eth0", "nodad")
	both := func(want bool, a string, more ...string) bool { // reports whether the second guest reaches an address, whatever it knew
		for _, g := range []*netnstest.Namespace{g1, g2} {
			g.Run(t, "ip", "-6", "neigh", "flush", "dev", "eth0")
		}
		return answers(want, g2, a, more...)
	}
	if !both(true, first[0]) {
		t.Fatal("the guests do not reach each other at their first addresses")
	}
	for i, secondary := range [][]netip.Addr{nil, {further}, {netip.MustParseAddr("10.77.0.40"), more, further}, {more}, {further}} {
		s.Ports[0].Secondary = secondary
		if i%2 == 0 {
			apply(t, m, s, Options{})
		} else if err := m.Change(t.Context(), Diff{Gone: []string{"sb1"}, Ports: s.Ports[:1]}); err != nil {
			t.Fatal(err)
		}
		want := slices.Contains(secondary, further)
		if got := both(want, further.String()); got != want {
			t.Errorf("%d: with %v, the neighbour reaches it: %t", i, secondary, got)
		}
		if got := answers(want, g1, first[1], "-I", further.String()); got != want {
			t.Errorf("%d: with %v, it sends from there: %t", i, secondary, got)
		}
	}
	// Another's secondary address is no guest's own.
	g1.Run(t, "ip", "-6", "addr", "del", further.String()+"/64", "dev", "eth0")
	g2.Run(t, "ip", "-6", "addr", "add", further.String()+"/64", "dev", "eth0", "nodad")
	if both(false, first[0], "-I", further.String()) {
		t.Error("a guest sends from another's secondary address")
	}
	if echoes(g1, further.String()) {
		t.Error("a guest answers for another's secondary address")
	}

	s.Ports[0].Secondary = []netip.Addr{netip.MustParseAddr("fd12:3456:789a:9::1")} // of a prefix that it had
	apply(t, m, s, Options{})
	s.Ports[0].Secondary = []netip.Addr{n.NodeAddr6()}
	const says = "secondary address fd12:3456:789a:1::1 is the node's"
	if err := m.Apply(t.Context(), s.state(), Options{}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the address of the node as a secondary one: %v", err)
	}
}

// TestEqualPrefixes6: what comes for a guest goes to the network that reaches outside, whichever network of the prefix came first.
func TestEqualPrefixes6(t *testing.T) {
	for _, first := range []seedbed.NetworkKind{seedbed.NetworkIsolated, seedbed.NetworkRouted} {
		t.Run(string(first)+" first", func(t *testing.T) {
			m := open(t)
			s := state0()
			prefix := netip.MustParsePrefix("fd12:3456:789a:2::/64")
			secondNetwork(&s, seedbed.NetworkRouted, "10.80.0.0/24")
			isolated, routed := &s.Networks[0], &s.Networks[1]
			isolated.Kind, isolated.NAT = seedbed.NetworkIsolated, false
			if first == seedbed.NetworkIsolated {
				isolated.Prefix6 = prefix
			} else {
				routed.Prefix6 = prefix
			}
			apply(t, m, s, Options{})
			isolated.Prefix6, routed.Prefix6 = prefix, prefix
			apply(t, m, s, Options{})
			if out := netnstest.Run(t, "ip", "-6", "route", "get", "fd12:3456:789a:2::7"); !strings.Contains(out, "dev sb-lab ") {
				t.Errorf("the way to the guests of the prefix is %s", out)
			}
		})
	}
}

// TestPrefixOfTheNode: an IPv6 prefix that the node itself has is reported.
func TestPrefixOfTheNode(t *testing.T) {
	world(t)
	netnstest.Run(t, "ip", "-6", "addr", "add", "2001:db8:9::5/64", "dev", "uplink", "nodad")
	m := open(t)
	s := state0()
	for prefix, want := range map[string]string{
		"2001:db8:8::/64": "", "2001:db8:9::/64": "2001:db8:9::/64 overlaps 2001:db8:9::/64, which this node reaches on uplink",
	} {
		s.Networks[0].Prefix6 = netip.MustParsePrefix(prefix)
		apply(t, m, s, Options{})
		got := ""
		for _, c := range m.Check(t.Context()) {
			if c.Name == "IPv6 prefix of network default" {
				got = c.Detail
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", prefix, got, want)
		}
	}
}

// TestListensAsRouter: where the node becomes a router, it still takes advertisements, also after others set the default again. A
// node that was one before ignored them, and still does.
func TestListensAsRouter(t *testing.T) {
	world(t)
	for router, want := range map[string]string{"0": "2", "1": "1"} {
		t.Run("forwarding="+router, func(t *testing.T) {
			netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.all.forwarding="+router, "net.ipv6.conf.uplink.accept_ra=1")
			m := open(t)
			s := state0()
			s.Networks[0].Prefix6 = netip.MustParsePrefix("fd12:3456:789a:2::/64")
			for range 2 {
				apply(t, m, s, Options{})
				if err := m.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
				if b, err := os.ReadFile("/proc/sys/net/ipv6/conf/uplink/accept_ra"); err != nil || strings.TrimSpace(string(b)) != want {
					t.Errorf("accept_ra is %s (%v), want %s", b, err, want)
				}
				netnstest.Run(t, "sysctl", "-w", "net.ipv6.conf.uplink.accept_ra=1")
			}
		})
	}
}

// sendMarked sends from the port of a DHCPv6 server on seedbed0 with a mark.
func sendMarked(t *testing.T, to netip.Addr, mark int) {
	t.Helper()
	ifi, err := net.InterfaceByName("seedbed0")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, err := range []error{
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark),
		unix.Bind(fd, &unix.SockaddrInet6{Port: 547}),
		unix.Sendto(fd, []byte("answer"), 0, &unix.SockaddrInet6{Port: 546, ZoneId: uint32(ifi.Index), Addr: to.As16()}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}
