//go:build integration

package netcfg

import (
	"context"
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
