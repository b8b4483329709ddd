//go:build integration

package netcfg

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// withFloating is a node whose guest sb1 has a floating address, and which lends more.
func withFloating(
	t *testing.T, kind seedbed.NetworkKind, bridgeNF string,
) (m *Manager, log *lines, s lists, w, g1, g2, g3 *netnstest.Namespace) {
	t.Helper()
	if key := "net/bridge/bridge-nf-call-iptables"; bridgeNF == "1" || exists("/proc/sys/"+key) {
		withOption(t, key, bridgeNF)
	}
	log = &lines{}
	m, s = openLog(t, log), state0()
	s.Networks[0].FloatingUplink = "ext"
	s.Networks[0].Floating = []seedbed.AddrRange{{First: netip.MustParseAddr("198.51.100.1"), Last: netip.MustParseAddr("198.51.100.99")}}
	s.Ports[0].Floating = netip.MustParseAddr("198.51.100.50")
	w, g1, g2, g3 = around(t, m, &s, kind, floatingOptions)
	return m, log, s, w, g1, g2, g3
}

var floatingOptions = Options{Uplinks: map[string]string{"ext": "uplink"}}

// addrsOf are the floating addresses of the node's uplink.
func addrsOf(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(netnstest.Run(t, "ip", "-4", "-o", "addr", "show", "dev", "uplink")) {
		if strings.Contains(line, floatingLabel) {
			all = append(all, strings.Fields(line)[3])
		}
	}
	return all
}

// TestFloating asks a guest by its floating address, and what it asks itself comes from there.
func TestFloating(t *testing.T) {
	const gateway = "10.77.0.1 mark 0"
	for name, tt := range map[string]struct {
		kind     seedbed.NetworkKind
		bridgeNF string
		others   string
	}{
		"nat":          {seedbed.NetworkNAT, "0", gateway},
		"isolated":     {seedbed.NetworkIsolated, "0", ""},
		"nat, bridged": {seedbed.NetworkNAT, "1", gateway},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, w, g1, g2, g3 := withFloating(t, tt.kind, tt.bridgeNF)
			serve(t, "198.51.100.1:7000")
			const at = "198.51.100.50:8080"
			ask(t, "from outside", w, at, "198.51.100.2 mark 0")
			askHere(t, "from the node", at, gateway)
			for range 3 {
				ask(t, "from a neighbour", g2, at, gateway)
			}
			ask(t, "from another network", g3, at, tt.others)
			ask(t, "out", g1, "198.51.100.2:9000", "198.51.100.50 mark 0")
			ask(t, "out, without one", g2, "198.51.100.2:9000", "198.51.100.1 mark 0")
			ask(t, "a port of the node at its own address", w, "198.51.100.1:7000", "198.51.100.2 mark 0")
			ask(t, "a port of the node at the guest's", w, "198.51.100.50:7000", "")
			w.Run(t, "ping", "-c1", "-W2", "198.51.100.50")
			netnstest.Run(t, "nft", "list", "table", "inet", "seedbed")
		})
	}
}

// TestFloatingMoves gives an address to another guest, to another node and back, and takes it away. Hosts outside learn where
// it is, though they know it as another's.
func TestFloatingMoves(t *testing.T) {
	m, _, s, w, _, g2, _ := withFloating(t, seedbed.NetworkNAT, "0")
	const at = "198.51.100.50:8080"
	serveIn(t, g2, ":8080")
	w.Run(t, "ip", "neigh", "replace", "198.51.100.50", "lladdr", "52:54:00:ee:00:99", "dev", "eth0", "nud", "reachable")
	s.Ports[0].Floating = netip.Addr{}
	apply(t, m, s, floatingOptions)
	if got := addrsOf(t); len(got) != 0 {
		t.Fatalf("addresses %v are left", got)
	}
	ask(t, "of nobody", w, at, "")
	s.Ports[1].Floating = netip.MustParseAddr("198.51.100.50")
	if err := m.Change(t.Context(), Diff{Ports: s.Ports[1:2]}); err != nil {
		t.Fatal(err)
	}
	ask(t, "of another guest", w, at, "198.51.100.2 mark 0")
	ask(t, "out", g2, "198.51.100.2:9000", "198.51.100.50 mark 0")

	// Another program takes it from the interface; a restarted Manager takes over.
	netnstest.Run(t, "ip", "addr", "del", "198.51.100.50/32", "dev", "uplink")
	if err := m.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, "restored", w, at, "198.51.100.2 mark 0")
	again := open(t)
	s.Ports[1].Floating = netip.MustParseAddr("198.51.100.51")
	apply(t, again, s, floatingOptions)
	if got := addrsOf(t); len(got) != 1 || got[0] != "198.51.100.51/32" {
		t.Errorf("addresses %v", got)
	}
	if err := again.Cleanup(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	if got := addrsOf(t); len(got) != 0 {
		t.Errorf("addresses %v are left after the cleanup", got)
	}
}

// TestFloatingLeftOut: an address that the node has itself, or whose interface it does not have, is left out, and said once.
func TestFloatingLeftOut(t *testing.T) {
	m, log, s, w, g1, _, _ := withFloating(t, seedbed.NetworkNAT, "0")
	serve(t, "198.51.100.1:8080")
	s.Ports[0].Floating = netip.MustParseAddr("198.51.100.1")
	for range 2 {
		apply(t, m, s, floatingOptions)
	}
	ask(t, "the node's own", w, "198.51.100.1:8080", "198.51.100.2 mark 0")
	ask(t, "out", g1, "198.51.100.2:9000", "198.51.100.1 mark 0")
	s.Ports[0].Floating = netip.MustParseAddr("198.51.100.60")
	apply(t, m, s, Options{})
	if i := slices.IndexFunc(m.Check(t.Context()), func(c seedbed.Check) bool { return c.Name == "floating address 198.51.100.60" }); i < 0 {
		t.Error("no check says that the address is left out")
	}
	if log.count("it is this node's own, on uplink") != 1 || log.count("this node has no interface ext") != 1 {
		t.Error(log.text)
	}
	apply(t, m, s, floatingOptions)
	ask(t, "with its interface", w, "198.51.100.60:8080", "198.51.100.2 mark 0")
}

// serveIn6 answers as serveIn does, over IPv6.
func serveIn6(t *testing.T, n *netnstest.Namespace, addr string) {
	t.Helper()
	var l net.Listener
	var err error
	n.Do(func() { l, err = net.Listen("tcp6", addr) })
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l)
}

// six is a node with guests as around makes them, which have IPv6 addresses as well. The hosts outside do not know the way to them.
type six struct {
	m             *Manager
	log           *lines
	s             lists
	o             Options
	w, g1, g2, g3 *netnstest.Namespace
	one, other    netip.Addr // the addresses of g1 and g2
}

const (
	uplink6, outside6 = "2001:db8:100::1", "2001:db8:100::2"
	float6            = "2001:db8:100::50"
	gateway6          = "fd12:3456:789a:1::1 mark 0"
)

// withSix changes the state before it is applied.
func withSix(t *testing.T, kind seedbed.NetworkKind, bridgeNF string, change func(s *lists)) (x six) {
	t.Helper()
	if key := "net/bridge/bridge-nf-call-ip6tables"; bridgeNF == "1" || exists("/proc/sys/"+key) {
		withOption(t, key, bridgeNF)
	}
	x.log, x.o = &lines{}, floatingOptions
	x.m, x.s = openLog(t, x.log), state0()
	n := &x.s.Networks[0]
	n.Prefix6, n.FloatingUplink = netip.MustParsePrefix("fd12:3456:789a:1::/64"), "ext"
	n.Floating = []seedbed.AddrRange{{First: netip.MustParseAddr("2001:db8:100::40"), Last: netip.MustParseAddr("2001:db8:100::ff")}}
	change(&x.s)
	x.w, x.g1, x.g2, x.g3 = around(t, x.m, &x.s, kind, x.o)
	x.s.Networks[1].Prefix6 = netip.MustParsePrefix("fd12:3456:789a:2::/64")
	netnstest.Run(t, "ip", "addr", "add", uplink6+"/64", "dev", "uplink", "nodad")
	x.w.Run(t, "ip", "addr", "add", outside6+"/64", "dev", "eth0", "nodad")
	apply(t, x.m, x.s, x.o)
	serveIn6(t, x.w, "["+outside6+"]:9000")
	for i, g := range []*netnstest.Namespace{x.g1, x.g2, x.g3} {
		n := x.s.Networks[i/2]
		g.Run(t, "ip", "addr", "add", n.Addr6(x.s.Ports[i].MAC).String()+"/64", "dev", "eth0", "nodad")
		g.Run(t, "ip", "-6", "route", "add", "default", "via", n.Gateway6().String())
	}
	x.one, x.other = x.s.Networks[0].Addr6(mac1), x.s.Networks[0].Addr6(mac2)
	serveIn6(t, x.g1, "[::]:8081")
	return x
}

// addrs6Of are the floating addresses of IPv6 of the node's uplink.
func addrs6Of(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(netnstest.Run(t, "ip", "-6", "-o", "addr", "show", "dev", "uplink")) {
		if strings.Contains(line, "/128 ") {
			all = append(all, strings.Fields(line)[3])
		}
	}
	return all
}

// reached6 are the kinds of network in which guests are asked over IPv6, whether bridged packets pass the rules of IP, and as whom the
// guests of another network ask: nobody if they cannot.
var reached6 = map[string]struct {
	kind     seedbed.NetworkKind
	bridgeNF string
	others   string
}{
	"nat":          {seedbed.NetworkNAT, "0", gateway6},
	"routed":       {seedbed.NetworkRouted, "0", gateway6},
	"isolated":     {seedbed.NetworkIsolated, "0", ""},
	"nat, bridged": {seedbed.NetworkNAT, "1", gateway6},
}

// TestFloating6 is TestFloating over IPv6, of a guest that has an address of each version.
func TestFloating6(t *testing.T) {
	for name, tt := range reached6 {
		t.Run(name, func(t *testing.T) {
			x := withSix(t, tt.kind, tt.bridgeNF, func(s *lists) {
				s.Networks[0].Floating = append(s.Networks[0].Floating, seedbed.AddrRange{First: netip.MustParseAddr("198.51.100.50"),
					Last: netip.MustParseAddr("198.51.100.50")})
				s.Ports[0].Floating, s.Ports[0].Floating6 = netip.MustParseAddr("198.51.100.50"), netip.MustParseAddr(float6)
			})
			serveIn6(t, x.g3, "[::]:8081")
			const at = "[" + float6 + "]:8081"
			ask(t, "from outside", x.w, at, outside6+" mark 0")
			askHere(t, "from the node", at, gateway6)
			for range 3 {
				ask(t, "from a neighbour", x.g2, at, gateway6)
			}
			ask(t, "from another network", x.g3, at, tt.others)
			ask(t, "out", x.g1, "["+outside6+"]:9000", float6+" mark 0")
			ask(t, "out, without one", x.g2, "["+outside6+"]:9000", uplink6+" mark 0")
			ask(t, "over IPv4", x.w, "198.51.100.50:8080", "198.51.100.2 mark 0")
			ask(t, "a port at which nobody listens", x.w, "["+float6+"]:7000", "")
			x.w.Run(t, "ping", "-6", "-c1", "-W2", float6)
			x.w.Run(t, "ping", "-6", "-c1", "-W2", "-s", "4000", float6)
			ask(t, "the metadata address, which the node alone has", x.g2, metadata6Global, "")
			if out := x.w.Run(t, "ip", "neigh", "show", float6); !strings.Contains(out, "52:54:00:ee:00:01") && !strings.Contains(out, "lladdr") {
				t.Errorf("the hosts outside know %q of it", out)
			}
		})
	}
}

// TestFloating6Moves is TestFloatingMoves over IPv6: each move is announced by an advertisement that overrides what a host knows.
func TestFloating6Moves(t *testing.T) {
	x := withSix(t, seedbed.NetworkNAT, "0", func(s *lists) { s.Ports[0].Floating6 = netip.MustParseAddr(float6) })
	const at = "[" + float6 + "]:8081"
	serveIn6(t, x.g2, "[::]:8081")
	x.w.Run(t, "ip", "neigh", "replace", float6, "lladdr", "52:54:00:ee:00:99", "dev", "eth0", "nud", "reachable")
	x.s.Ports[0].Floating6 = netip.Addr{}
	apply(t, x.m, x.s, x.o)
	if got := addrs6Of(t); len(got) != 0 {
		t.Fatalf("addresses %v are left", got)
	}
	ask(t, "of nobody", x.w, at, "")
	x.s.Ports[1].Floating6 = netip.MustParseAddr(float6)
	if err := x.m.Change(t.Context(), Diff{Ports: x.s.Ports[1:2]}); err != nil {
		t.Fatal(err)
	}
	if got := x.w.Run(t, "ip", "neigh", "show", float6); strings.Contains(got, "52:54:00:ee:00:99") {
		t.Errorf("a host outside still knows it as another's: %s", got)
	}
	ask(t, "of another guest", x.w, at, outside6+" mark 0")
	ask(t, "out", x.g2, "["+outside6+"]:9000", float6+" mark 0")

	// Another program takes it from the interface; a restarted Manager takes over, and the node's own addresses stay.
	netnstest.Run(t, "ip", "addr", "del", float6+"/128", "dev", "uplink")
	if err := x.m.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, "restored", x.w, at, outside6+" mark 0")
	netnstest.Run(t, "ip", "addr", "add", "2001:db8:100::9/128", "dev", "uplink", "nodad")
	again := open(t)
	x.s.Ports[1].Floating6 = netip.MustParseAddr("2001:db8:100::51")
	apply(t, again, x.s, x.o)
	if got := addrs6Of(t); len(got) != 2 || !slices.Contains(got, "2001:db8:100::51/128") || !slices.Contains(got, "2001:db8:100::9/128") {
		t.Errorf("addresses %v", got)
	}
	if err := again.Cleanup(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	if got := addrs6Of(t); len(got) != 1 || got[0] != "2001:db8:100::9/128" {
		t.Errorf("addresses %v are left after the cleanup", got)
	}
}

// TestFloating6LeftOut: an IPv6 address is left out that the node has itself, or whose interface has no IPv6.
func TestFloating6LeftOut(t *testing.T) {
	x := withSix(t, seedbed.NetworkNAT, "0", func(s *lists) {})
	x.s.Ports[0].Floating6 = netip.MustParseAddr("2001:db8:100::9")
	netnstest.Run(t, "ip", "addr", "add", "2001:db8:100::9/128", "dev", "uplink", "nodad")
	apply(t, x.m, x.s, x.o)
	netnstest.Run(t, "ip", "addr", "del", "2001:db8:100::9/128", "dev", "uplink")
	withOption(t, "net/ipv6/conf/uplink/disable_ipv6", "1")
	apply(t, x.m, x.s, x.o)
	said := func(c seedbed.Check) bool { return c.Name == "floating address 2001:db8:100::9" }
	if !slices.ContainsFunc(x.m.Check(t.Context()), said) {
		t.Error("no check says that the address is left out")
	}
	if x.log.count("it is this node's own, on uplink") != 1 || x.log.count("IPv6 is disabled on this node's interface uplink") != 1 {
		t.Error(x.log.text)
	}
	withOption(t, "net/ipv6/conf/uplink/disable_ipv6", "0")
	netnstest.Run(t, "ip", "addr", "add", uplink6+"/64", "dev", "uplink", "nodad")
	apply(t, x.m, x.s, x.o)
	ask(t, "with IPv6", x.w, "[2001:db8:100::9]:8081", outside6+" mark 0")
}

// TestForwards6 is TestForwards over IPv6: forwards at all addresses and at one go to the IPv6 address of the guest, and those of IPv4
// stay theirs.
func TestForwards6(t *testing.T) {
	for name, tt := range reached6 {
		t.Run(name, func(t *testing.T) {
			x := withSix(t, tt.kind, tt.bridgeNF, func(s *lists) {
				s.Ports[0].Forwards = []seedbed.Forward{forwarding(t, "tcp:[::]:8000-8001", 8081), forwarding(t, "tcp:8000", 8080),
					forwarding(t, "tcp:["+uplink6+"]:8002", 8081), forwarding(t, "tcp:[::]:80", 8081)}
			})
			serve6(t, "seedbed0", 80)
			for _, port := range []string{"8000", "8002"} {
				at := "[" + uplink6 + "]:" + port
				ask(t, "from outside", x.w, at, outside6+" mark 0")
				askHere(t, "from the node", at, gateway6)
				for range 3 {
					ask(t, "from a neighbour", x.g2, at, gateway6)
				}
				ask(t, "from another network", x.g3, at, tt.others)
			}
			ask(t, "a port to which nobody listens", x.w, "["+uplink6+"]:8001", "")
			ask(t, "over IPv4", x.w, "198.51.100.1:8000", "198.51.100.2 mark 0")
			ask(t, "a port of IPv6 alone, over IPv4", x.w, "198.51.100.1:8001", "")
			ask(t, "the gateway", x.g2, "["+x.s.Networks[0].Gateway6().String()+"]:8000", "")
			ask(t, "metadata", x.g2, metadata6Global, x.other.String()+" mark 102")
			askHere(t, "the node itself", "[::1]:8000", "")

			x.s.Ports[0].Forwards = x.s.Ports[0].Forwards[1:2]
			apply(t, x.m, x.s, x.o)
			ask(t, "of no forward any more", x.w, "["+uplink6+"]:8000", "")
		})
	}
}
