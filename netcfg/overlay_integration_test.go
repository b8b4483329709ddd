//go:build integration

package netcfg

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

const testVNI = 4711

// site is two nodes on one wire: the test's own namespace, and another.
type site struct {
	far         *netnstest.Namespace
	here, there *Manager
	a, b        lists
	// aOptions and bOptions are those of the nodes.
	aOptions, bOptions Options
}

var (
	nodeA, nodeB = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	overlayGW    = netip.MustParseAddr("10.81.0.1")
)

func overlayNet(kind seedbed.NetworkKind) seedbed.Network {
	return seedbed.Network{Name: "wide", Kind: kind, NAT: kind == seedbed.NetworkNAT, Bridge: "sb-wide", VNI: testVNI,
		MAC: seedbed.MAC{0x52, 0x54, 0, 0xb0, 0, 8}, Prefix: netip.MustParsePrefix("10.81.0.0/24"), Gateway: overlayGW, DHCP: true,
		NetworkOptions: seedbed.NetworkOptions{MTU: 1450}, DNS: []netip.Addr{seedbed.ResolverAddr}}
}

func overlayMAC(n byte) seedbed.MAC { return seedbed.MAC{2, 0, 0, 0, 1, n} }
func overlayAddr(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 81, 0, n}) }

func overlayPort(n byte) Port {
	return Port{Tap: "sb" + string('0'+rune(n)), MAC: overlayMAC(n), Addr: overlayAddr(n), Mark: 100 + uint32(n), Bridge: "sb-wide"}
}

func overlayPeer(n byte, node netip.Addr) Peer {
	return Peer{MAC: overlayMAC(n), Addr: overlayAddr(n), Bridge: "sb-wide", Node: node}
}

func newSite(t *testing.T, kind seedbed.NetworkKind) *site {
	t.Helper()
	s := &site{far: netnstest.New(t), here: open(t)}
	netnstest.Veth(t, "wire", s.far, wireMAC)
	netnstest.Run(t, "ip", "addr", "add", nodeA.String()+"/24", "dev", "wire")
	s.far.Run(t, "ip", "addr", "add", nodeB.String()+"/24", "dev", "eth0")
	var err error
	s.far.Do(func() { s.there, err = Open(slog.New(slog.NewTextHandler(io.Discard, nil))) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.there.Close() })
	nodes := []netip.Addr{nodeA, nodeB}
	s.a = lists{Networks: []seedbed.Network{overlayNet(kind)}, Address: nodeA, Nodes: nodes}
	s.b = lists{Networks: []seedbed.Network{overlayNet(kind)}, Address: nodeB, Nodes: nodes}
	return s
}

func (s *site) apply(t *testing.T) {
	t.Helper()
	apply(t, s.here, s.a, s.aOptions)
	var err error
	s.far.Do(func() { err = s.there.Apply(t.Context(), s.b.state(), s.bOptions) })
	if err != nil {
		t.Fatal(err)
	}
}

// guest is one of the node in which it is made.
func (s *site) guest(t *testing.T, n byte, far bool) *netnstest.Namespace {
	t.Helper()
	return s.guestAt(t, overlayPort(n), overlayGW, far)
}

// guestAt is guest in another network.
func (s *site) guestAt(t *testing.T, p Port, gateway netip.Addr, far bool) *netnstest.Namespace {
	t.Helper()
	g := netnstest.New(t)
	run := func(args ...string) { netnstest.Run(t, "ip", args...) }
	if far {
		run = func(args ...string) { s.far.Run(t, "ip", args...) }
	}
	run("link", "add", p.Tap, "type", "veth", "peer", "name", "eth0", "netns", g.PID(), "address", p.MAC.String())
	t.Cleanup(func() { netnstest.Try("ip", "link", "del", p.Tap) })
	run("link", "set", p.Tap, "master", p.Bridge, "mtu", "1450")
	run("link", "set", p.Tap, "up")
	g.Run(t, "ip", "link", "set", "eth0", "up", "mtu", "1450")
	g.Run(t, "ip", "addr", "add", p.Addr.String()+"/24", "dev", "eth0")
	g.Run(t, "ip", "route", "add", "default", "via", gateway.String())
	serveIn(t, g, ":8080")
	return g
}

// TestOverlay: guests of two nodes are neighbours in an overlay, each with its own node as gateway and for its metadata.
func TestOverlay(t *testing.T) {
	for _, kind := range []seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkIsolated} {
		t.Run(string(kind), func(t *testing.T) {
			s := newSite(t, kind)
			s.a.Ports, s.b.Ports = []Port{overlayPort(3), overlayPort(4)}, []Port{overlayPort(5)}
			s.a.Peers, s.b.Peers = []Peer{overlayPeer(5, nodeB)}, []Peer{overlayPeer(3, nodeA), overlayPeer(4, nodeA)}
			s.apply(t)
			g3, g4, g5 := s.guest(t, 3, false), s.guest(t, 4, false), s.guest(t, 5, true)
			ask(t, "a guest of the other node", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
			ask(t, "from a guest of the other node", g5, "10.81.0.4:8080", "10.81.0.5 mark 0")
			serveOnBridge(t, "sb-wide", metadata)
			ask(t, "metadata of this node", g3, metadata, "10.81.0.3 mark 103")
			ask(t, "metadata of a node that does not serve it, by the other", g5, metadata, "")
			if out := g5.Run(t, "ping", "-c1", "-W2", overlayGW.String()); !strings.Contains(out, "1 received") {
				t.Error(out)
			}
			g4.Run(t, "ping", "-c1", "-W2", overlayGW.String())
			v6 := strings.Fields(strings.Split(g5.Run(t, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link"), "inet6 ")[1])[0]
			v6, _, _ = strings.Cut(v6, "/")
			time.Sleep(2 * time.Second) // until the address is no longer tentative
			g3.Run(t, "ping", "-c1", "-W5", v6+"%eth0")

			// A packet of the whole MTU arrives.
			g3.Run(t, "ping", "-c1", "-W2", "-M", "do", "-s", "1422", "10.81.0.5")

			// A guest moves, with its connections: nobody has to learn anything.
			g4.Run(t, "ip", "neigh", "replace", "10.81.0.3", "lladdr", overlayMAC(3).String(), "dev", "eth0", "nud", "permanent")
			netnstest.Run(t, "ip", "link", "del", "sb3")
			s.a.Ports, s.b.Ports = []Port{overlayPort(4)}, []Port{overlayPort(5), overlayPort(3)}
			s.a.Peers, s.b.Peers = []Peer{overlayPeer(5, nodeB), overlayPeer(3, nodeB)}, []Peer{overlayPeer(4, nodeA)}
			change := Diff{Gone: []string{"sb3"}, Peers: []Peer{overlayPeer(3, nodeB)}}
			if err := s.here.Change(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			s.apply(t)
			s.guest(t, 3, true)
			ask(t, "a guest that moved, with a warm ARP entry", g4, "10.81.0.3:8080", "10.81.0.4 mark 0")

			// What others change comes back.
			link := uplinkPrefix + linkDigits("sb-wide")
			whole := knownOf(t, link)
			repaired := func(what string, repair func(context.Context) error, args ...string) {
				t.Helper()
				netnstest.Run(t, args[0], args[1:]...)
				if len(knownOf(t, link)) == len(whole) {
					t.Errorf("%s changes nothing:\n%s", what, whole)
				}
				if err := repair(t.Context()); err != nil {
					t.Fatal(err)
				}
				if now := knownOf(t, link); now != whole {
					t.Errorf("after %s, the kernel knows\n%s\nand not\n%s", what, now, whole)
				}
			}
			repaired("the tunnel went", s.here.Verify, "bridge", "fdb", "del", overlayMAC(5).String(), "dev", link, "self")
			repaired("the member went", s.here.Verify, "bridge", "fdb", "del", overlayMAC(5).String(), "dev", link, "master")
			repaired("the neighbours went", s.here.Verify, "ip", "neigh", "flush", "dev", "sb-wide", "nud", "permanent")
			repaired("a stranger came", s.here.Verify, "ip", "neigh", "add", "10.81.0.99", "lladdr", "02:00:00:00:00:99", "dev", "sb-wide")
			repaired("the port left", s.here.Restore, "ip", "link", "set", link, "nomaster")
			ask(t, "after a repair", g4, "10.81.0.5:8080", "10.81.0.4 mark 0")
			netnstest.Run(t, "ip", "link", "del", uplinkPrefix+linkDigits("sb-wide"))
			if err := s.here.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			ask(t, "after its VXLAN was deleted", g4, "10.81.0.5:8080", "10.81.0.4 mark 0")

			// The address of the other node changes.
			s.far.Run(t, "ip", "addr", "add", "192.0.2.9/24", "dev", "eth0")
			s.b.Address = netip.MustParseAddr("192.0.2.9")
			s.a.Nodes = []netip.Addr{nodeA, s.b.Address}
			s.b.Nodes = s.a.Nodes
			s.a.Peers = []Peer{overlayPeer(5, s.b.Address), overlayPeer(3, s.b.Address)}
			s.apply(t)
			s.far.Run(t, "ip", "addr", "flush", "dev", "eth0")
			s.far.Run(t, "ip", "addr", "add", "192.0.2.9/24", "dev", "eth0")
			ask(t, "after the other node got another address", g4, "10.81.0.5:8080", "10.81.0.4 mark 0")

			// Without an address, the network ends at the node.
			s.a.Address = netip.Addr{}
			apply(t, s.here, s.a, Options{})
			ask(t, "without an address of the node", g4, "10.81.0.5:8080", "")
			ask(t, "metadata without an address of the node", g4, metadata, "10.81.0.4 mark 104")
			if err := s.here.Cleanup(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if out := netnstest.Run(t, "ip", "link"); strings.Contains(out, uplinkPrefix) || strings.Contains(out, "sb-wide") {
				t.Errorf("left after the cleanup:\n%s", out)
			}
		})
	}
}

// TestOverlaySecondary: guests of other nodes are reached at their secondary addresses, which the node knows as long as they have them.
func TestOverlaySecondary(t *testing.T) {
	s := newSite(t, seedbed.NetworkIsolated)
	prefix6 := netip.MustParsePrefix("fd12:3456:789a:8::/64")
	s.a.Networks[0].Prefix6, s.b.Networks[0].Prefix6 = prefix6, prefix6
	further := []netip.Addr{netip.MustParseAddr("10.81.0.55"), netip.MustParseAddr("fd12:3456:789a:8::55")}
	there, peer := overlayPort(5), overlayPeer(5, nodeB)
	there.Secondary, peer.Secondary = further, further
	s.a.Ports, s.b.Ports = []Port{overlayPort(3)}, []Port{there}
	s.a.Peers, s.b.Peers = []Peer{peer}, []Peer{overlayPeer(3, nodeA)}
	s.apply(t)
	g3, g5 := s.guest(t, 3, false), s.guest(t, 5, true)
	g3.Run(t, "ip", "-6", "addr", "add", s.a.Networks[0].Addr6(overlayMAC(3)).String()+"/64", "dev", "eth0", "nodad")
	g5.Run(t, "ip", "addr", "add", "10.81.0.55/24", "dev", "eth0")
	g5.Run(t, "ip", "-6", "addr", "add", "fd12:3456:789a:8::55/64", "dev", "eth0", "nodad")
	knows := func(a netip.Addr) bool {
		return strings.Contains(netnstest.Run(t, "ip", "neigh", "show", a.String(), "dev", "sb-wide"), overlayMAC(5).String()+" PERMANENT")
	}
	for _, a := range further {
		if !answers(true, g3, a.String()) || !knows(a) {
			t.Errorf("%s of a guest of the other node: known %t", a, knows(a))
		}
	}
	if err := s.here.Change(t.Context(), Diff{Peers: []Peer{overlayPeer(5, nodeB)}}); err != nil {
		t.Fatal(err)
	}
	for _, a := range further {
		if knows(a) {
			t.Errorf("%s is known of a guest that has it no longer", a)
		}
	}
}

// knownOf is what the kernel knows of the guests of other nodes in the overlay.
func knownOf(t *testing.T, link string) string {
	t.Helper()
	lines := strings.Split(netnstest.Run(t, "bridge", "fdb", "show", "dev", link), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "permanent") && !strings.Contains(l, "dst") })
	lines = append(lines, strings.Split(netnstest.Run(t, "ip", "neigh", "show", "dev", "sb-wide", "nud", "permanent"), "\n")...)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestOverlayQuiet: requests to a node stay there: DHCP, and ARP for the gateway and for peers. Other broadcasts reach the
// guests of other nodes.
func TestOverlayQuiet(t *testing.T) {
	s := newSite(t, seedbed.NetworkIsolated)
	s.a.Ports, s.a.Peers = []Port{overlayPort(3)}, []Peer{overlayPeer(5, nodeB)}
	s.b.Networks = nil
	s.a.Networks[0].Allow = seedbed.NetworkPermissions{DHCPServer: true, RouterAdvertisements: true} // its own port lets all pass
	s.apply(t)
	g3 := s.guest(t, 3, false)
	var fd int
	s.far.Do(func() { fd = rawSocketOn(t, "eth0") })
	defer unix.Close(fd)
	// crosses reports whether the wire sees an Ethernet frame in VXLAN, of a type and with a text, after send.
	crosses := func(within time.Duration, etherType uint16, text string, send func()) bool {
		const inner = 14 + 20 + 8 + 8
		b := make([]byte, 2000)
		var sent time.Time
		for end := time.Now().Add(within); time.Now().Before(end); {
			if time.Since(sent) > 200*time.Millisecond { // again: an address may be tentative yet
				sent = time.Now()
				send()
			}
			n, _, err := unix.Recvfrom(fd, b, 0)
			if err == nil && n > inner+14 && binary.BigEndian.Uint16(b[inner+12:]) == etherType && strings.Contains(string(b[inner:n]), text) {
				return true
			}
		}
		return false
	}
	broadcast := func(port string) func() {
		return func() {
			g3.Do(func() {
				c, err := net.Dial("udp4", "10.81.0.255:"+port)
				if err == nil {
					c.Write([]byte("SEEDBED " + port))
					c.Close()
				}
			})
		}
	}
	to6 := func(to string) func() {
		return func() {
			g3.Do(func() {
				if c, err := net.Dial("udp6", to); err == nil {
					c.Write([]byte("SEEDBED " + to))
					c.Close()
				}
			})
		}
	}
	arping := func(addr string) func() {
		return func() {
			g3.Run(t, "ip", "neigh", "flush", "dev", "eth0")
			g3.Do(func() { sendTo(addr + ":9") })
		}
	}
	const short = 300 * time.Millisecond
	asks := func(addr string) string { return string(netip.MustParseAddr(addr).AsSlice()) }
	if !crosses(patience, unix.ETH_P_IP, "SEEDBED 99", broadcast("99")) {
		t.Error("a broadcast does not cross")
	}
	if !crosses(patience, unix.ETH_P_IPV6, "SEEDBED [ff02::1%eth0]:99", to6("[ff02::1%eth0]:99")) {
		t.Error("multicast does not cross")
	}
	if !crosses(patience, unix.ETH_P_ARP, asks("10.81.0.77"), arping("10.81.0.77")) {
		t.Error("ARP for an unknown address does not cross")
	}
	g3.Run(t, "ip", "neigh", "replace", "10.81.0.88", "lladdr", "02:00:00:00:09:09", "dev", "eth0")
	if crosses(short, unix.ETH_P_IP, asks("10.81.0.88"), func() { g3.Do(func() { sendTo("10.81.0.88:9") }) }) {
		t.Error("a frame for a MAC of nobody crosses")
	}
	for what, c := range map[string]struct {
		etherType uint16
		text      string
		send      func()
	}{
		"DHCP":                {unix.ETH_P_IP, "SEEDBED 67", broadcast("67")},
		"an answer of DHCP":   {unix.ETH_P_IP, "SEEDBED 68", broadcast("68")},
		"DHCPv6":              {unix.ETH_P_IPV6, "SEEDBED [ff02::1:2%eth0]:547", to6("[ff02::1:2%eth0]:547")},
		"an answer of DHCPv6": {unix.ETH_P_IPV6, "SEEDBED [ff02::1%eth0]:546", to6("[ff02::1%eth0]:546")},
		"ARP for the gateway": {unix.ETH_P_ARP, asks("10.81.0.1"), arping("10.81.0.1")},
		"ARP for a peer":      {unix.ETH_P_ARP, asks("10.81.0.5"), arping("10.81.0.5")},
	} {
		if crosses(short, c.etherType, c.text, c.send) {
			t.Errorf("%s crosses", what)
		}
	}
}

func sendTo(addr string) {
	if c, err := net.Dial("udp4", addr); err == nil {
		c.Write([]byte("x"))
		c.Close()
	}
}
