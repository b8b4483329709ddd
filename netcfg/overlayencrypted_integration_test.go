//go:build integration

package netcfg

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
	"seedbed/netcfg/wireguard"
)

// newKey is the key of a node.
func newKey(t *testing.T) *wireguard.Identity {
	t.Helper()
	key, err := wireguard.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &key
}

// encrypted is a site whose nodes encrypt, each with a guest, and know each other.
func encrypted(t *testing.T) *site {
	t.Helper()
	s := newSite(t, seedbed.NetworkNAT)
	s.encrypt(t)
	s.a.Ports, s.b.Ports = []Port{overlayPort(3)}, []Port{overlayPort(5)}
	s.a.Peers, s.b.Peers = []Peer{overlayPeer(5, nodeB)}, []Peer{overlayPeer(3, nodeA)}
	return s
}

// encrypt gives the nodes keys, of which they tell each other.
func (s *site) encrypt(t *testing.T) {
	t.Helper()
	s.aOptions.Overlay = Overlay{Encryption: newKey(t), Port: 51821}
	s.bOptions.Overlay = Overlay{Encryption: newKey(t), Port: 51822}
	for _, networks := range [][]seedbed.Network{s.a.Networks, s.b.Networks} {
		for i := range networks {
			networks[i].MTU = 1370
		}
	}
	s.exchange()
}

// exchange tells the nodes of each other's keys.
func (s *site) exchange() {
	a, b := s.aOptions.Overlay, s.bOptions.Overlay
	all := map[netip.Addr]seedbed.Tunnel{nodeA: {Key: a.Encryption.Public(), Port: a.Port}, nodeB: {Key: b.Encryption.Public(), Port: b.Port}}
	s.a.Tunnels, s.b.Tunnels = all, all
}

// problem reports whether a failed check of this node has a text.
func (s *site) problem(t *testing.T, text string) bool {
	t.Helper()
	return slices.ContainsFunc(s.here.Check(t.Context()), func(c seedbed.Check) bool {
		return !c.OK && strings.Contains(c.Detail+" "+c.Hint, text)
	})
}

// datagrams are the UDP ports to which something crosses the wire within a time, after send.
func (s *site) datagrams(t *testing.T, within time.Duration, send func()) map[uint16]int {
	t.Helper()
	var fd int
	s.far.Do(func() { fd = rawSocketOn(t, "eth0") })
	defer unix.Close(fd)
	send()
	seen := map[uint16]int{}
	b := make([]byte, 2000)
	for end := time.Now().Add(within); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(fd, b, 0)
		switch {
		case err != nil || n < 62:
		case binary.BigEndian.Uint16(b[12:]) == unix.ETH_P_IP && b[23] == unix.IPPROTO_UDP:
			seen[binary.BigEndian.Uint16(b[36:])]++
		case binary.BigEndian.Uint16(b[12:]) == unix.ETH_P_IPV6 && b[20] == unix.IPPROTO_UDP:
			seen[binary.BigEndian.Uint16(b[56:])]++
		}
	}
	return seen
}

// TestOverlayEncrypted: nodes that encrypt an overlay send each other nothing of it in plain, and take nothing that comes so.
// Where the kernel cannot, the overlay ends at the node and no other network waits for it. Both are shown by TestDebianKernel
// of internal/e2e, which has a kernel with WireGuard.
func TestOverlayEncrypted(t *testing.T) {
	if netnstest.Try("ip", "link", "add", "probe-wg", "type", "wireguard") != nil {
		t.Run("without WireGuard", testWithoutWireGuard)
		return
	}
	netnstest.Run(t, "ip", "link", "del", "probe-wg")
	t.Run("tunnels", testTunnels)
	t.Run("tunnels of peers", testTunnelsOfPeers)
	t.Run("peers without a key", testKeyless)
}

func testWithoutWireGuard(t *testing.T) {
	s := encrypted(t)
	s.a.Networks = append(s.a.Networks, network0())
	s.a.Ports = append(s.a.Ports, state0().Ports...)
	apply(t, s.here, s.a, s.aOptions)
	if !s.problem(t, "load its module wireguard") {
		t.Errorf("no check names the module: %+v", s.here.Check(t.Context()))
	}
	if out := netnstest.Run(t, "ip", "link"); strings.Contains(out, tunnelPrefix) || strings.Contains(out, uplinkPrefix) {
		t.Errorf("half of an overlay was made:\n%s", out)
	}
	serve(t, "169.254.169.254:80")
	ask(t, "metadata in another network", guest(t, "sb1", mac1, ip1), metadata, "10.77.0.11 mark 101")
	ask(t, "metadata in the overlay", s.guest(t, 3, false), metadata, "10.81.0.3 mark 103")
	// What the node would send in plain, if it had a VXLAN, does not leave.
	netnstest.Run(t, "ip", "link", "add", "leak", "type", "vxlan", "id", "4711", "dstport", "4789",
		"local", nodeA.String(), "remote", nodeB.String())
	t.Cleanup(func() { netnstest.Try("ip", "link", "del", "leak") })
	netnstest.Run(t, "ip", "addr", "add", "198.51.100.1/24", "dev", "leak")
	netnstest.Run(t, "ip", "link", "set", "leak", "up")
	send := func() { sendTo("198.51.100.2:9") }
	if seen := s.datagrams(t, time.Second, send); len(seen) != 0 {
		t.Errorf("datagrams to the ports %v crossed the wire in plain", seen)
	}
	if err := s.here.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	netnstest.Run(t, "ip", "neigh", "flush", "dev", "leak")
	if seen := s.datagrams(t, time.Second, send); seen[seedbed.VXLANPort] == 0 {
		t.Errorf("without rules, datagrams to the ports %v crossed the wire: the test proves nothing", seen)
	}
}

func testTunnels(t *testing.T) {
	s := encrypted(t)
	s.apply(t)
	g3, g5 := s.guest(t, 3, false), s.guest(t, 5, true)
	ask(t, "a guest of the other node", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	g3.Run(t, "ip", "link", "set", "eth0", "mtu", "1370")
	g5.Run(t, "ip", "link", "set", "eth0", "mtu", "1370")
	g3.Run(t, "ping", "-c1", "-W9", "-M", "do", "-s", "1342", "10.81.0.5") // the whole MTU
	seen := s.datagrams(t, 2*time.Second, func() { g3.Run(t, "ping", "-c3", "-i0.2", "-W9", "10.81.0.5") })
	if seen[51821] == 0 || seen[51822] == 0 || len(seen) != 2 {
		t.Errorf("datagrams to the ports %v crossed the wire", seen)
	}
	if s.problem(t, "overlay") {
		t.Errorf("checks: %+v", s.here.Check(t.Context()))
	}

	// What comes in plain is not taken, whatever addresses it has.
	short := 500 * time.Millisecond
	good := udpFrame(overlayMAC(5), overlayMAC(3), overlayAddr(5), overlayAddr(3))
	inner := s.a.Tunnels[nodeB].Key.Addr()
	own := s.a.Tunnels[nodeA].Key.Addr()
	plain := func(from, to netip.Addr) func() {
		return func() {
			var err error
			s.far.Do(func() { err = sendVXLAN(from, to, testVNI, good) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s.far.Run(t, "nft", "flush", "chain", "inet", "seedbed", "tracking-out") // the other node would not send it
	if receives(t, g3, short, plain(nodeB, nodeA)) {
		t.Error("a frame that came in plain arrives")
	}
	if !receives(t, g3, patience, plain(inner, own)) {
		t.Error("a frame of the other node does not arrive by the tunnel: the test proves nothing")
	}
	// The same, past the tunnel.
	wire, err := net.InterfaceByName("wire")
	if err != nil {
		t.Fatal(err)
	}
	s.far.Run(t, "ip", "-6", "route", "replace", own.String(), "dev", "eth0")
	s.far.Run(t, "ip", "-6", "neigh", "replace", own.String(), "lladdr", wire.HardwareAddr.String(), "dev", "eth0")
	if receives(t, g3, short, plain(inner, own)) {
		t.Error("a frame that came in plain between the addresses in the tunnel arrives")
	}
	netnstest.Run(t, "nft", "flush", "chain", "inet", "seedbed", "input")
	if !receives(t, g3, patience, plain(inner, own)) {
		t.Error("without rules, the same frame does not arrive either: the test proves nothing")
	}
	if err := s.here.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.far.Do(func() {
		if err := s.there.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	ask(t, "after the other node was repaired", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")

	// A route or the interface is gone: nothing leaves in plain, and both come back.
	link := tunnelPrefix + linkDigits("")
	ping := func() { g3.Do(func() { sendTo("10.81.0.5:9") }) }
	netnstest.Run(t, "ip", "-6", "route", "del", inner.String(), "dev", link)
	netnstest.Run(t, "ip", "-6", "route", "add", "default", "dev", "wire")
	netnstest.Run(t, "ip", "-6", "neigh", "replace", inner.String(), "lladdr", wireMAC, "dev", "wire")
	if seen := s.datagrams(t, time.Second, ping); seen[seedbed.VXLANPort] != 0 {
		t.Errorf("without the route, datagrams to the ports %v crossed the wire", seen)
	}
	netnstest.Run(t, "nft", "flush", "chain", "inet", "seedbed", "tracking-out")
	if seen := s.datagrams(t, time.Second, ping); seen[seedbed.VXLANPort] == 0 {
		t.Errorf("without the route and rules, datagrams to the ports %v crossed the wire: the test proves nothing", seen)
	}
	restore := func() {
		t.Helper()
		if err := s.here.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restore()
	ask(t, "after the route went", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	netnstest.Run(t, "ip", "link", "set", link, "down")
	netnstest.Run(t, "ip", "link", "set", link, "up")
	netnstest.Run(t, "ip", "-6", "route", "add", "fd00::77", "dev", link, "proto", "static") // of a node that went while nobody looked
	restore()
	ask(t, "after the interface was down", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	if routes := netnstest.Run(t, "ip", "-6", "route", "show", "dev", link); strings.Contains(routes, "fd00::77") {
		t.Errorf("the route to a node that went stays:\n%s", routes)
	}
	// Another program has the port: the tunnels go on at the one that they had.
	other := udpAt(t, s.far, "0.0.0.0:51823")
	s.bOptions.Overlay.Port = 51823
	s.apply(t)
	var checks []seedbed.Check
	s.far.Do(func() { checks = s.there.Check(t.Context()) })
	taken := func(c seedbed.Check) bool {
		return !c.OK && strings.Contains(c.Detail, "UDP port 51823 of this node is another program's")
	}
	if !slices.ContainsFunc(checks, taken) {
		t.Errorf("checks of a node whose port is another's: %+v", checks)
	}
	s.far.Run(t, "ip", "link", "show", link)
	other.Close()
	s.exchange()
	s.apply(t)
	ask(t, "after the port was free", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	netnstest.Run(t, "ip", "link", "del", link)
	if seen := s.datagrams(t, time.Second, ping); seen[seedbed.VXLANPort] != 0 {
		t.Errorf("without the interface, datagrams to the ports %v crossed the wire", seen)
	}
	netnstest.Run(t, "ip", "link", "add", link, "type", "wireguard") // as a crash leaves it
	restore()
	ask(t, "after the interface went", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")

	// The other node has a new key.
	s.bOptions.Overlay.Encryption = newKey(t)
	s.exchange()
	s.apply(t)
	ask(t, "after the other node got another key", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	if routes := netnstest.Run(t, "ip", "-6", "route", "show", "dev", link); strings.Contains(routes, inner.String()) {
		t.Errorf("the route to the address of the old key stays:\n%s", routes)
	}
	s.here.Apply(t.Context(), s.a.state(), s.aOptions)
	if err := s.here.Cleanup(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if out := netnstest.Run(t, "ip", "link"); strings.Contains(out, tunnelPrefix) || strings.Contains(out, uplinkPrefix) {
		t.Errorf("left after the cleanup:\n%s", out)
	}
}

// testTunnelsOfPeers: guests of two overlays that are peers reach each other by the tunnels alone.
func testTunnelsOfPeers(t *testing.T) {
	s := newJoinedSite(t, [2]seedbed.NetworkKind{seedbed.NetworkNAT, seedbed.NetworkIsolated})
	s.encrypt(t)
	s.peer(t, true)
	s.boot(t, 3, 5)
	s.asks(t, "by a tunnel", 3, 5, true)
	s.asks(t, "by a tunnel", 5, 3, true)
	seen := s.datagrams(t, 2*time.Second, func() { s.guests[3].Run(t, "ping", "-c3", "-i0.2", "-W9", joinedAddr(5).String()) })
	if seen[51821] == 0 || seen[51822] == 0 || len(seen) != 2 {
		t.Errorf("datagrams to the ports %v crossed the wire", seen)
	}
}

// testKeyless: between a node that encrypts and one that does not, nothing crosses.
func testKeyless(t *testing.T) {
	s := encrypted(t)
	s.bOptions.Overlay = Overlay{}
	s.a.Tunnels = map[netip.Addr]seedbed.Tunnel{nodeA: s.a.Tunnels[nodeA]}
	s.b.Tunnels = s.a.Tunnels
	s.apply(t)
	if !s.problem(t, "whose key it does not know: 192.0.2.2") {
		t.Errorf("checks of the node that encrypts: %+v", s.here.Check(t.Context()))
	}
	var checks []seedbed.Check
	s.far.Do(func() { checks = s.there.Check(t.Context()) })
	told := func(c seedbed.Check) bool { return !c.OK && strings.Contains(c.Detail, "the nodes that do: 192.0.2.1") }
	if !slices.ContainsFunc(checks, told) {
		t.Errorf("checks of the node that does not encrypt: %+v", checks)
	}
	g3, g5 := s.guest(t, 3, false), s.guest(t, 5, true)
	seen := s.datagrams(t, time.Second, func() {
		g3.Do(func() { sendTo("10.81.0.5:9"); sendTo("10.81.0.255:9") })
		g5.Do(func() { sendTo("10.81.0.3:9"); sendTo("10.81.0.255:9") })
	})
	if len(seen) != 0 {
		t.Errorf("datagrams to the ports %v crossed the wire", seen)
	}
	ask(t, "a guest of a node without a key", g3, "10.81.0.5:8080", "")

	// Both encrypt at last.
	s.bOptions.Overlay = Overlay{Encryption: newKey(t), Port: 51822}
	s.exchange()
	s.apply(t)
	ask(t, "a guest of the node that has a key now", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")

	// And then no more.
	s.aOptions, s.bOptions, s.a.Tunnels, s.b.Tunnels = Options{}, Options{}, nil, nil
	s.apply(t)
	ask(t, "a guest after the encryption ended", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	if out := netnstest.Run(t, "ip", "link"); strings.Contains(out, tunnelPrefix) {
		t.Errorf("left after the encryption ended:\n%s", out)
	}
}

// udpAt is a socket in a namespace.
func udpAt(t *testing.T, n *netnstest.Namespace, at string) (c net.PacketConn) {
	t.Helper()
	var err error
	n.Do(func() { c, err = net.ListenPacket("udp4", at) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
