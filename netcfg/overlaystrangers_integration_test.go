//go:build integration

package netcfg

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// TestOverlayStrangers: nobody but the nodes sends frames for an overlay, and of these only guests that are there.
func TestOverlayStrangers(t *testing.T) {
	s := newSite(t, seedbed.NetworkNAT)
	s.a.Ports = []Port{overlayPort(3)}
	s.a.Peers = []Peer{overlayPeer(5, nodeB)}
	s.b.Networks = nil
	s.apply(t)
	g3 := s.guest(t, 3, false)
	s.far.Run(t, "ip", "addr", "add", "192.0.2.66/24", "dev", "eth0")
	send := func(from netip.Addr, vni int, frame []byte) {
		t.Helper()
		var err error
		s.far.Do(func() { err = sendVXLAN(from, nodeA, vni, frame) })
		if err != nil {
			t.Fatal(err)
		}
	}
	good := udpFrame(overlayMAC(5), overlayMAC(3), overlayAddr(5), overlayAddr(3))
	if !receives(t, g3, patience, func() { send(nodeB, testVNI, good) }) {
		t.Fatal("a frame of a peer does not arrive")
	}
	short := 300 * time.Millisecond
	netnstest.Run(t, "ip", "addr", "add", "192.0.2.77/24", "dev", "wire")
	another := func() {
		var err error
		s.far.Do(func() { err = sendVXLAN(nodeB, netip.MustParseAddr("192.0.2.77"), testVNI, good) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if receives(t, g3, short, another) {
		t.Error("a frame to another address of the node arrives")
	}
	tracked := func(port string) bool {
		table, err := os.ReadFile("/proc/thread-self/net/nf_conntrack")
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`src=192\.0\.2\.\d+ dst=192\.0\.2\.\d+ sport=\d+ dport=` + port).Match(table)
	}
	if _, err := os.Stat("/proc/thread-self/net/nf_conntrack"); err == nil { // not every kernel has it
		for end := time.Now().Add(patience); !tracked("4790"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("other packets to the node are not tracked")
			}
			s.far.Do(func() { sendTo(nodeA.String() + ":4790") })
		}
		if tracked("4789") {
			t.Error("frames of overlays are tracked")
		}
	}
	if receives(t, g3, short, func() { send(netip.MustParseAddr("192.0.2.66"), testVNI, good) }) {
		t.Error("a frame from a host that is not a node arrives")
	}
	if receives(t, g3, short, func() { send(nodeB, testVNI+1, good) }) {
		t.Error("a frame of another overlay arrives")
	}
	for what, frame := range map[string][]byte{
		"no guest's MAC":         udpFrame(overlayMAC(9), overlayMAC(3), overlayAddr(5), overlayAddr(3)),
		"the gateway's MAC":      udpFrame(s.a.Networks[0].MAC, overlayMAC(3), overlayGW, overlayAddr(3)),
		"the MAC of this guest":  udpFrame(overlayMAC(3), overlayMAC(3), overlayAddr(5), overlayAddr(3)),
		"the gateway's address":  udpFrame(overlayMAC(5), overlayMAC(3), overlayGW, overlayAddr(3)),
		"the metadata address":   udpFrame(overlayMAC(5), overlayMAC(3), seedbed.MetadataAddr, overlayAddr(3)),
		"the resolver's address": udpFrame(overlayMAC(5), overlayMAC(3), seedbed.ResolverAddr, overlayAddr(3)),
	} {
		if receives(t, g3, short, func() { send(nodeB, testVNI, frame) }) {
			t.Errorf("a frame with %s arrives", what)
		}
	}
	// A guest cannot speak as its node.
	arrives := func(port string, within time.Duration) bool {
		return reaches(t, g3, s.far, "udp4", nodeB.String()+":"+port, within)
	}
	if !arrives("4790", patience) {
		t.Error("what a guest sends to the other node does not arrive")
	}
	if arrives("4789", time.Second) {
		t.Error("a guest reaches the VXLAN of the other node through its NAT")
	}
	s.a.Networks, s.a.Nodes = append(s.a.Networks, network0()), nil // a node that does not know of the others
	apply(t, s.here, s.a, Options{})
	if arrives("4789", time.Second) {
		t.Error("a guest reaches the VXLAN of a node that its own does not know")
	}

	// The bridge becomes another's, while the guest is attached.
	s.a.Networks[0].MAC[5]++
	s.a.Nodes = []netip.Addr{nodeA, nodeB}
	var left *LeftOut
	if err := s.here.Apply(t.Context(), s.a.state(), Options{}); !errors.As(err, &left) {
		t.Errorf("Apply = %v, want the overlay left out", err)
	}
	if receives(t, g3, short, func() { send(nodeB, testVNI, good) }) {
		t.Error("a frame arrives at a bridge that is another's")
	}
}

// TestNoGuestIsANode: a guest that may use any address does not use that of a node, if there are overlays.
func TestNoGuestIsANode(t *testing.T) {
	m := open(t)
	n := network0()
	n.Allow.Addresses = true
	s := state0()
	s.Networks = []seedbed.Network{n, overlayNet(seedbed.NetworkIsolated)}
	s.Address, s.Nodes = nodeA, []netip.Addr{nodeA, nodeB, netip.MustParseAddr("2001:db8::2")}
	apply(t, m, s, Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	if !reaches(t, g1, g2, "udp4", ip2.String()+":4789", patience) {
		t.Error("guests of a network do not use VXLAN among themselves")
	}
	g2.Run(t, "ip", "addr", "add", "192.0.2.50/24", "dev", "eth0")
	g2.Run(t, "ip", "addr", "add", "2001:db8::50/64", "dev", "eth0", "nodad")
	for from, want := range map[string]bool{"192.0.2.9/24": true, "192.0.2.2/24": false, "2001:db8::9/64": true, "2001:db8::2/64": false} {
		args := []string{"addr", "add", from, "dev", "eth0"}
		network, to := "udp4", "192.0.2.50:9"
		if strings.Contains(from, ":") {
			args, network, to = append(args, "nodad"), "udp6", "[2001:db8::50]:9"
		}
		g1.Run(t, "ip", args...)
		g1.Run(t, "ip", "neigh", "replace", netip.MustParseAddrPort(to).Addr().String(), "lladdr", mac2.String(), "dev", "eth0")
		within := patience
		if !want {
			within = 300 * time.Millisecond
		}
		if got := reaches(t, g1, g2, network, to, within); got != want {
			t.Errorf("what a guest sends from %s arrives: %t, want %t", from, got, want)
		}
		args[1] = "del"
		g1.Run(t, "ip", args[:5]...)
	}
}

// TestOverlayRefused: an overlay that the kernel does not make ends at the node, and no other network waits for it. Nor does a
// guest speak as a node whose address it was given.
func TestOverlayRefused(t *testing.T) {
	m := open(t)
	netnstest.Run(t, "ip", "link", "add", "theirs", "type", "vxlan", "id", "4711", "dstport", "4789")
	t.Cleanup(func() { netnstest.Try("ip", "link", "del", "theirs") })
	s := state0()
	s.Networks[0].Kind, s.Networks[0].NAT = seedbed.NetworkRouted, false
	s.Networks = append(s.Networks, overlayNet(seedbed.NetworkIsolated))
	s.Address, s.Nodes = nodeA, []netip.Addr{nodeA, ip2}
	apply(t, m, s, Options{})
	for _, want := range []string{"VXLAN 4711 is another's", "no interface has the address 192.0.2.1",
		"has the address 10.77.0.12 of a node"} {
		if !slices.ContainsFunc(m.Check(t.Context()), func(c seedbed.Check) bool { return !c.OK && strings.Contains(c.Detail, want) }) {
			t.Errorf("no check says %q", want)
		}
	}
	serve(t, "169.254.169.254:80")
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	ask(t, "metadata in another network", g1, metadata, "10.77.0.11 mark 101")
	ask(t, "metadata with the address of a node", g2, metadata, "")
	netnstest.Run(t, "ip", "link", "del", "theirs")
	if err := m.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	netnstest.Run(t, "ip", "link", "show", uplinkPrefix+linkDigits("sb-wide"))
}

// receives reports whether the guest gets a datagram at port 9000 after send, which is tried again until it does: under load, one
// may be lost before it comes to any rule.
func receives(t *testing.T, g *netnstest.Namespace, within time.Duration, send func()) bool {
	t.Helper()
	var l net.PacketConn
	var err error
	g.Do(func() { l, err = net.ListenPacket("udp4", ":9000") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end, sent := time.Now().Add(within), 0
	for ; time.Now().Before(end); sent++ {
		send()
		l.SetReadDeadline(time.Now().Add(min(again, time.Until(end))))
		if _, _, err = l.ReadFrom(make([]byte, 9)); err == nil {
			break
		}
	}
	if err != nil {
		return false
	}
	// No later one is to be taken for another's.
	l.SetReadDeadline(time.Now().Add(time.Second))
	for ; sent > 0 && err == nil; sent-- {
		_, _, err = l.ReadFrom(make([]byte, 9))
	}
	return true
}

// again is after how long receives sends once more.
const again = 150 * time.Millisecond

func sendVXLAN(from, to netip.Addr, vni int, frame []byte) error {
	c, err := net.DialUDP("udp", &net.UDPAddr{IP: from.AsSlice()}, &net.UDPAddr{IP: to.AsSlice(), Port: seedbed.VXLANPort})
	if err != nil {
		return err
	}
	defer c.Close()
	packet := append([]byte{8, 0, 0, 0}, binary.BigEndian.AppendUint32(nil, uint32(vni)<<8)...)
	_, err = c.Write(append(packet, frame...))
	return err
}

// udpFrame is a datagram of one byte to port 9000.
func udpFrame(src, dst seedbed.MAC, from, to netip.Addr) []byte {
	udp := []byte{0x23, 0x28, 0x23, 0x28, 0, 9, 0, 0, 'x'}
	ip := []byte{0x45, 0, 0, byte(20 + len(udp)), 0, 0, 0, 0, 64, 17, 0, 0}
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return append(append(append(append(dst[:], src[:]...), 8, 0), ip...), udp...)
}
