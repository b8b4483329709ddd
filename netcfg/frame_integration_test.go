//go:build integration

package netcfg

import (
	"bytes"
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
)

var (
	broadcast = seedbed.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	everybody = netip.MustParseAddr("255.255.255.255")
)

func ether(dst, src seedbed.MAC, typ uint16, payload []byte) []byte {
	return bytes.Join([][]byte{dst[:], src[:], be16(typ), payload}, nil)
}

func arp(op uint16, sha seedbed.MAC, spa netip.Addr, tpa netip.Addr) []byte {
	return bytes.Join([][]byte{{0, 1, 8, 0, 6, 4}, be16(op), sha[:], spa.AsSlice(), make([]byte, 6), tpa.AsSlice()}, nil)
}

func ip4(src, dst netip.Addr, proto byte, fragment uint16, payload []byte) []byte {
	h := make([]byte, 20)
	h[0], h[8], h[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(h[6:], fragment)
	copy(h[12:], src.AsSlice())
	copy(h[16:], dst.AsSlice())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum+sum>>16))
	return append(h, payload...)
}

func udp(sport, dport uint16, payload []byte) []byte {
	return bytes.Join([][]byte{be16(sport), be16(dport), be16(uint16(8 + len(payload))), {0, 0}, payload}, nil)
}

// dhcpRequest is the fixed part of a request from that chaddr.
func dhcpRequest(m seedbed.MAC) []byte {
	b := make([]byte, 240)
	b[0], b[1], b[2] = 1, 1, 6
	copy(b[28:], m[:])
	return b
}

func ip6(next byte, payload []byte) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, next, 255
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	h[8], h[9], h[23] = 0xfe, 0x80, 1
	h[24], h[25], h[39] = 0xff, 0x02, 1
	return append(h, payload...)
}

// rawSocket sends and receives whole frames on eth0 of the calling thread's namespace.
func rawSocket(t *testing.T) int { return rawSocketOn(t, "eth0") }

func rawSocketOn(t *testing.T, name string) int {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(binary.NativeEndian.Uint16(be16(unix.ETH_P_ALL))))
	if err != nil {
		t.Error(err)
		return -1
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Error(err)
		return -1
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(be16(unix.ETH_P_ALL)),
		Ifindex: i.Index}); err != nil {
		t.Error(err)
	}
	tv := unix.NsecToTimeval(int64(100 * time.Millisecond))
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	return fd
}

// TestFrames sends each frame from guest 1, and after it one that is allowed, and looks which of
// them guest 2 receives.
func TestFrames(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, g2 := guest(t, "sb1", mac1, ip1), guest(t, "sb2", mac2, ip2)
	var tx, rx int
	g2.Do(func() { rx = rawSocket(t) })
	g1.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx); unix.Close(rx) })

	arpEther := func(payload []byte) []byte { return ether(broadcast, mac1, unix.ETH_P_ARP, payload) }
	ipEther := func(payload []byte) []byte { return ether(broadcast, mac1, unix.ETH_P_IP, payload) }
	ip6Ether := func(payload []byte) []byte { return ether(broadcast, mac1, unix.ETH_P_IPV6, payload) }
	vlan := append(be16(5), be16(unix.ETH_P_ARP)...)
	hello := udp(1000, 2000, []byte("hello"))
	for _, tt := range []struct {
		name  string
		frame []byte
		pass  bool
	}{
		{"UDP from its own address", ipEther(ip4(ip1, everybody, 17, 0, hello)), true},
		{"UDP from another's address", ipEther(ip4(ip2, everybody, 17, 0, hello)), false},
		{"UDP from nowhere", ipEther(ip4(zeroAddr, everybody, 17, 0, hello)), false},
		{"UDP with another's MAC", ether(broadcast, mac2, unix.ETH_P_IP, ip4(ip1, everybody, 17, 0, hello)), false},
		{"UDP with another's MAC and address", ether(broadcast, mac2, unix.ETH_P_IP, ip4(ip2, everybody, 17, 0, hello)), false},
		{"ARP for itself", arpEther(arp(1, mac1, ip1, ip1)), true},
		{"ARP answer for itself", arpEther(arp(2, mac1, ip1, ip2)), true},
		{"ARP probe of its own address", arpEther(arp(1, mac1, zeroAddr, ip1)), true},
		{"ARP probe of another's address", arpEther(arp(1, mac1, zeroAddr, ip2)), false},
		{"ARP claim of the metadata address", arpEther(arp(2, mac1, seedbed.MetadataAddr, ip2)), false},
		{"ARP claim of the gateway", arpEther(arp(1, mac1, gw, gw)), false},
		{"ARP claim of another's address", arpEther(arp(2, mac1, ip2, ip1)), false},
		{"ARP with another's MAC inside", arpEther(arp(2, mac2, ip1, ip2)), false},
		{"ARP of odd sizes", arpEther(append([]byte{0, 1, 8, 0, 4, 4}, make([]byte, 30)...)), false},
		{"DHCP server", ipEther(ip4(ip1, everybody, 17, 0, udp(67, 68, make([]byte, 300)))), false},
		{"DHCP server in fragments", ipEther(ip4(ip1, everybody, 17, 0x2000, udp(67, 68, nil))), false},
		{"DHCP request", ipEther(ip4(zeroAddr, everybody, 17, 0, udp(68, 67, dhcpRequest(mac1)))), true},
		{"DHCP request with its address", ipEther(ip4(ip1, everybody, 17, 0, udp(68, 67, dhcpRequest(mac1)))), true},
		{"DHCP request for another", ipEther(ip4(zeroAddr, everybody, 17, 0, udp(68, 67, dhcpRequest(mac2)))), false},
		{"DHCP request in fragments", ipEther(ip4(ip1, everybody, 17, 0x2000, udp(68, 67, nil))), false},
		{"ICMP redirect", ipEther(ip4(ip1, everybody, 1, 0, append([]byte{5, 1}, make([]byte, 40)...))), false},
		{"802.1Q tag", ether(broadcast, mac1, unix.ETH_P_8021Q, append(vlan, arp(2, mac1, seedbed.MetadataAddr, ip2)...)), false},
		{"priority tag", ether(broadcast, mac1, unix.ETH_P_8021Q, append(append(be16(0), be16(unix.ETH_P_ARP)...), arp(2, mac1,
			seedbed.MetadataAddr, ip2)...)), false},
		{"802.1ad tag", ether(broadcast, mac1, unix.ETH_P_8021AD, append(vlan, arp(2, mac1, ip1, ip2)...)), false},
		{"PPPoE discovery", ether(broadcast, mac1, unix.ETH_P_PPP_DISC, make([]byte, 46)), false},
		{"spanning tree", ether(seedbed.MAC{1, 0x80, 0xc2}, mac1, 38, make([]byte, 46)), false},
		{"router advertisement", ip6Ether(ip6(58, append([]byte{134, 0}, make([]byte, 14)...))), false},
		{"router advertisement behind an extension header", ip6Ether(ip6(0, append([]byte{58, 0, 1, 4, 0, 0, 0, 0, 134, 0},
			make([]byte, 14)...))), false},
		{"ICMPv6 redirect", ip6Ether(ip6(58, append([]byte{137, 0}, make([]byte, 38)...))), false},
		{"DHCPv6 server", ip6Ether(ip6(17, udp(547, 546, make([]byte, 20)))), false},
		{"neighbour solicitation", ip6Ether(ip6(58, append([]byte{135, 0}, make([]byte, 22)...))), true},
	} {
		mark := ipEther(ip4(ip1, everybody, 17, 0, udp(1000, 2001, []byte(tt.name))))
		for _, f := range [][]byte{tt.frame, mark} {
			if _, err := unix.Write(tx, f); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		if got := receivedBefore(t, rx, tt.frame, mark); got != tt.pass {
			t.Errorf("%s: received %v, want %v", tt.name, got, tt.pass)
		}
	}
}

// receivedBefore reads frames up to mark, and tells whether want was among them.
func receivedBefore(t *testing.T, fd int, want, mark []byte) bool {
	t.Helper()
	got := false
	buf := make([]byte, 2048)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := unix.Read(fd, buf)
		if err != nil {
			continue
		}
		switch {
		case bytes.Equal(buf[:n], mark):
			return got
		case bytes.HasPrefix(buf[:n], want), bytes.Contains(want, buf[14:n]) && bytes.Equal(buf[6:12], want[6:12]):
			got = true
		}
	}
	t.Fatal("a frame that is allowed did not arrive")
	return false
}

// TestFramesPastTheBridge: what is sent to a link-local group address, or to a port that lost its
// bridge, reaches the host on the port itself.
func TestFramesPastTheBridge(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g := guest(t, "sb1", mac1, ip1)
	var tx int
	g.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx) })
	host, err := net.ListenPacket("udp4", ":5353")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })

	send := func(dst seedbed.MAC, text string) {
		t.Helper()
		if _, err := unix.Write(tx, ether(dst, mac1, unix.ETH_P_IP, ip4(ip1, gw, 17, 0, udp(1000, 5353, []byte(text))))); err != nil {
			t.Fatal(err)
		}
	}
	send(seedbed.MAC{1, 0x80, 0xc2, 0, 0, 0x0e}, "past the bridge")
	netnstest.Run(t, "ip", "link", "set", "sb1", "nomaster")
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.sb1.rp_filter=0")
	sb1, err := net.InterfaceByName("sb1")
	if err != nil {
		t.Fatal(err)
	}
	send(seedbed.MAC(sb1.HardwareAddr), "without a bridge")
	netnstest.Run(t, "nft", "delete", "table", "inet", "seedbed")
	send(seedbed.MAC(sb1.HardwareAddr), "without rules")

	host.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 100)
	n, _, err := host.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(buf[:n]); got != "without rules" {
		t.Errorf("the host received %q", got)
	}
}

// TestARPPastTheBridge: the node neither answers nor learns from ARP to a link-local group address,
// which its kernel takes from the port itself.
func TestARPPastTheBridge(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g := guest(t, "sb1", mac1, ip1)
	var tx, rx int
	g.Do(func() { tx, rx = rawSocket(t), rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx); unix.Close(rx) })
	netnstest.Run(t, "sysctl", "-w", "net.ipv4.conf.sb1.rp_filter=0", "net.ipv4.conf.all.rp_filter=0")
	claim := func(sender netip.Addr) {
		t.Helper()
		to := seedbed.MAC{1, 0x80, 0xc2, 0, 0, 0x0e}
		if _, err := unix.Write(tx, ether(to, mac1, unix.ETH_P_ARP, arp(1, mac1, sender, gw))); err != nil {
			t.Fatal(err)
		}
	}
	forged, open := netip.MustParseAddr("10.99.0.200"), netip.MustParseAddr("10.99.0.201")
	claim(forged)
	claim(ip1)
	netnstest.Run(t, "nft", "delete", "table", "arp", "seedbed")
	claim(open) // without the table the node answers: the frames above arrived before this one
	answer := func(to netip.Addr) []byte {
		b := arp(2, seedbed.MAC{}, gw, to)
		return slices.Concat(b[:8], b[14:18], b[24:28]) // without the two MACs
	}
	until(t, "the node answers ARP past the bridge without the table", func() bool {
		buf := make([]byte, 2000)
		for {
			n, err := unix.Read(rx, buf)
			if err != nil {
				return false
			}
			if n < 14+28 || binary.BigEndian.Uint16(buf[12:]) != unix.ETH_P_ARP {
				continue
			}
			got := slices.Concat(buf[14:22], buf[28:32], buf[38:42])
			if bytes.Equal(got, answer(open)) {
				return true
			}
			for _, a := range []netip.Addr{forged, ip1} {
				if bytes.Equal(got, answer(a)) {
					t.Fatalf("the node answered the ARP of %s past the bridge", a)
				}
			}
		}
	})
	learned := netnstest.Run(t, "ip", "neigh", "show", "dev", "sb1")
	for a, want := range map[netip.Addr]bool{open: true, forged: false, ip1: false} {
		if got := strings.Contains(learned, a.String()+" "); got != want {
			t.Errorf("the node's neighbours on the port: %q; %s is one: %t, want %t", learned, a, got, want)
		}
	}
}

// TestSendersPastTheBridge: the bridge does not learn who sent a frame to a link-local group address,
// which passes no filter. A guest would get its neighbour's frames, or fill the bridge's table. A
// bridge that another program lets learn is corrected.
func TestSendersPastTheBridge(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g := guest(t, "sb1", mac1, ip1)
	var tx int
	g.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx) })
	learned := func(mac seedbed.MAC) bool {
		return strings.Contains(netnstest.Run(t, "bridge", "fdb", "show", "dev", "sb1"), mac.String()+" ")
	}
	for i, restore := range []bool{false, true} {
		if restore {
			netnstest.Run(t, "ip", "link", "set", "seedbed0", "type", "bridge", "no_linklocal_learn", "0")
			if err := m.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		forged := seedbed.MAC{0x52, 0x54, 0, 0, 9, byte(i)}
		for last := range 16 {
			for _, mac := range []seedbed.MAC{forged, mac2} {
				to := seedbed.MAC{1, 0x80, 0xc2, 0, 0, byte(last)}
				if _, err := unix.Write(tx, ether(to, mac, 0x88cc, make([]byte, 46))); err != nil {
					t.Fatal(err)
				}
			}
		}
		settle(t, tx, mac1)
		for _, mac := range []seedbed.MAC{forged, mac2} {
			if learned(mac) {
				t.Errorf("the bridge learned %s, after it was corrected: %t", mac, restore)
			}
		}
	}
	if !learned(mac1) {
		t.Error("the bridge did not learn the guest's own MAC")
	}
}
