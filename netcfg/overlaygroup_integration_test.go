//go:build integration

package netcfg

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

var overlayGroup = netip.MustParseAddr("239.1.2.3")

// TestOverlayGroup: with a multicast group, one frame for all goes to the group, whatever the number of nodes, and others to the
// node of their guest. Strangers send into the overlay by the group no more than otherwise.
func TestOverlayGroup(t *testing.T) {
	s := newSite(t, seedbed.NetworkIsolated)
	s.aOptions.Overlay.Group, s.bOptions.Overlay.Group = overlayGroup, overlayGroup
	nodeC := netip.MustParseAddr("192.0.2.3") // is away
	s.a.Nodes = append(s.a.Nodes, nodeC)
	s.b.Nodes = s.a.Nodes
	s.a.Ports, s.b.Ports = []Port{overlayPort(3)}, []Port{overlayPort(5)}
	s.a.Peers, s.b.Peers = []Peer{overlayPeer(5, nodeB), overlayPeer(6, nodeC)}, []Peer{overlayPeer(3, nodeA), overlayPeer(6, nodeC)}
	s.apply(t)
	g3, g5 := s.guest(t, 3, false), s.guest(t, 5, true)
	ask(t, "a guest of the other node", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")
	broadcast := func() {
		g3.Do(func() {
			if c, err := net.Dial("udp4", "10.81.0.255:9000"); err == nil {
				c.Write([]byte("SEEDBED"))
				c.Close()
			}
		})
	}
	if !receives(t, g5, patience, broadcast) {
		t.Fatal("a broadcast does not reach the guest of the other node")
	}
	if to := s.sentTo(t, "SEEDBED", broadcast); len(to) != 1 || to[overlayGroup] != 1 {
		t.Errorf("a broadcast went to %v, want once to the group", to)
	}
	unicast := func() {
		g3.Do(func() {
			if c, err := net.Dial("udp4", "10.81.0.5:9000"); err == nil {
				c.Write([]byte("SEEDBED"))
				c.Close()
			}
		})
	}
	if to := s.sentTo(t, "SEEDBED", unicast); to[nodeB] != 1 || to[overlayGroup] != 0 || to[nodeC] != 0 {
		t.Errorf("a datagram for the guest of the other node went to %v", to)
	}

	// What comes for the group comes from a node.
	s.far.Run(t, "ip", "addr", "add", "192.0.2.66/24", "dev", "eth0")
	s.far.Run(t, "ip", "route", "add", "239.0.0.0/8", "dev", "eth0")
	good := udpFrame(overlayMAC(5), overlayMAC(3), overlayAddr(5), overlayAddr(3))
	from := func(a, group netip.Addr) func() {
		return func() {
			var err error
			s.far.Do(func() { err = sendVXLAN(a, group, testVNI, good) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !receives(t, g3, patience, from(nodeB, overlayGroup)) {
		t.Error("a frame of a node for the group does not arrive")
	}
	short := 300 * time.Millisecond
	if receives(t, g3, short, from(netip.MustParseAddr("192.0.2.66"), overlayGroup)) {
		t.Error("a frame of a stranger for the group arrives")
	}
	netnstest.Run(t, "ip", "addr", "add", "239.9.9.9/32", "dev", "wire", "autojoin")
	if receives(t, g3, short, from(nodeB, netip.MustParseAddr("239.9.9.9"))) {
		t.Error("a frame for another group arrives")
	}
	netnstest.Run(t, "ip", "addr", "del", "239.9.9.9/32", "dev", "wire")

	// What others change comes back.
	link := uplinkPrefix + linkDigits("sb-wide")
	known := func() string { return strings.ReplaceAll(knownOf(t, link), "permanent", "static") } // the kernel's own entry, or another
	whole := known()
	netnstest.Run(t, "bridge", "fdb", "del", "00:00:00:00:00:00", "dev", link, "dst", overlayGroup.String(), "via", "wire", "self")
	if err := s.here.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := known(); now != whole {
		t.Errorf("after the entry of the group went, the kernel knows\n%s\nand not\n%s", now, whole)
	}
	if to := s.sentTo(t, "SEEDBED", broadcast); len(to) != 1 || to[overlayGroup] != 1 {
		t.Errorf("after a repair, a broadcast went to %v", to)
	}

	// A guest comes and goes; then the nodes have no group any more.
	if err := s.here.Change(t.Context(), Diff{GonePeers: []seedbed.MAC{overlayMAC(6)}}); err != nil {
		t.Fatal(err)
	}
	if to := s.sentTo(t, "SEEDBED", broadcast); len(to) != 1 || to[overlayGroup] != 1 {
		t.Errorf("after a guest went, a broadcast went to %v", to)
	}
	s.aOptions, s.bOptions = Options{}, Options{}
	s.apply(t)
	if to := s.sentTo(t, "SEEDBED", broadcast); len(to) != 2 || to[nodeB] != 1 || to[nodeC] != 1 {
		t.Errorf("without a group, a broadcast went to %v", to)
	}
	ask(t, "a guest of the other node without a group", g3, "10.81.0.5:8080", "10.81.0.3 mark 0")

	// A group needs an interface of its family.
	s.aOptions.Overlay.Group = netip.MustParseAddr("ff05::4789")
	apply(t, s.here, s.a, s.aOptions)
	if !s.problem(t, "not of the family of this node's address 192.0.2.1") {
		t.Errorf("checks with a group of another family: %+v", s.here.Check(t.Context()))
	}
}

// sentTo is to which addresses VXLAN frames with a text cross the wire in a moment after send, and how often.
func (s *site) sentTo(t *testing.T, text string, send func()) map[netip.Addr]int {
	t.Helper()
	s.far.Run(t, "ip", "neigh", "replace", "192.0.2.3", "lladdr", "02:00:00:00:00:33", "dev", "eth0")
	netnstest.Run(t, "ip", "neigh", "replace", "192.0.2.3", "lladdr", "02:00:00:00:00:33", "dev", "wire")
	var fd int
	s.far.Do(func() { fd = rawSocketOn(t, "eth0") })
	defer unix.Close(fd)
	send()
	to := map[netip.Addr]int{}
	b := make([]byte, 2000)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err == nil && n > 42 && binary.BigEndian.Uint16(b[12:]) == unix.ETH_P_IP && strings.Contains(string(b[42:n]), text) &&
			binary.BigEndian.Uint16(b[36:]) == seedbed.VXLANPort {
			to[netip.AddrFrom4([4]byte(b[30:34]))]++
		}
	}
	return to
}

// TestOverlayBroadcasts: what a guest sends to all nodes is bounded, also questions for neighbours, each by itself. What it sends to one
// guest is not, nor does it take from another guest.
func TestOverlayBroadcasts(t *testing.T) {
	s := newSite(t, seedbed.NetworkIsolated)
	s.a.Ports, s.a.Peers = []Port{overlayPort(3), overlayPort(4)}, []Peer{overlayPeer(5, nodeB)}
	s.b.Networks = nil
	s.apply(t)
	g3, g4 := s.guest(t, 3, false), s.guest(t, 4, false)
	link := uplinkPrefix + linkDigits("sb-wide")
	sent := func() (n int) {
		all, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			t.Fatal(err)
		}
		_, counts, _ := strings.Cut(string(all), link+":")
		if n, err = strconv.Atoi(strings.Fields(counts)[9]); err != nil { // packets sent
			t.Fatal(err)
		}
		return n
	}
	const many, all = 3000, copyBurst + copyRate
	// crosses returns how many of the copies of a frame leave the node, and in which time.
	crosses := func(g *netnstest.Namespace, n int, frame []byte) (int, time.Duration) {
		before, began := sent(), time.Now()
		g.Do(func() {
			fd := rawSocket(t)
			defer unix.Close(fd)
			for range n {
				unix.Write(fd, frame)
			}
		})
		return sent() - before, time.Since(began)
	}
	ofGuest := func(n byte, to seedbed.MAC, target netip.Addr) []byte {
		return udpFrame(overlayMAC(n), to, overlayAddr(n), target)
	}
	arping := ether(broadcast, overlayMAC(3), unix.ETH_P_ARP, arp(1, overlayMAC(3), overlayAddr(3), overlayAddr(77)))
	if n, _ := crosses(g3, many, ofGuest(3, overlayMAC(5), overlayAddr(5))); n < many {
		t.Errorf("%d of %d frames to one guest leave the node", n, many)
	}
	for what, frame := range map[string][]byte{
		"broadcasts": ofGuest(3, broadcast, overlayAddr(255)),
		"multicasts": ofGuest(3, seedbed.MAC{1, 0, 0x5e, 0, 0, 0xfb}, netip.MustParseAddr("224.0.0.251")),
		"ARP":        arping,
	} {
		time.Sleep(3 * time.Second) // until the guest may send as many as ever
		n, within := crosses(g3, many, frame)
		if n < copyBurst || n > copyBurst+int(copyRate*(within.Seconds()+1)) || n >= many {
			t.Errorf("of %d %s, %d leave the node within %s, want some %d", many, what, n, within, all)
		}
		if n, _ := crosses(g3, 100, ofGuest(3, overlayMAC(5), overlayAddr(5))); n < 100 {
			t.Errorf("after too many %s, %d of 100 frames to one guest leave the node", what, n)
		}
		if n, _ := crosses(g4, 100, ofGuest(4, broadcast, overlayAddr(255))); n < 100 {
			t.Errorf("after too many %s, %d of 100 broadcasts of another guest leave the node", what, n)
		}
		other, name := arping, "questions for a neighbour"
		if what == "ARP" {
			other, name = ofGuest(3, broadcast, overlayAddr(255)), "broadcasts"
		}
		if n, _ := crosses(g3, 100, other); n < 100 {
			t.Errorf("after too many %s, %d of 100 %s leave the node", what, n, name)
		}
	}
}
