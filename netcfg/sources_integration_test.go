//go:build integration

package netcfg

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"seedbed"
	"seedbed/netcfg/netnstest"
)

// packet6 is an IPv6 packet with the checksum of its payload at an offset (RFC 8200, 8.1).
func packet6(src, dst netip.Addr, next byte, payload []byte, checksumAt int) []byte {
	h := make([]byte, 40, 40+len(payload))
	h[0], h[6], h[7] = 0x60, next, 255
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	sum := uint32(len(payload)) + uint32(next)
	for _, b := range [][]byte{h[8:40], payload} {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(payload[checksumAt:], ^uint16(sum))
	return append(h, payload...)
}

// solicitation asks for the metadata address, and says the sender's MAC.
func solicitation(from netip.Addr, mac seedbed.MAC) []byte {
	b := append([]byte{neighbourSolicitation, 0, 0, 0, 0, 0, 0, 0}, seedbed.MetadataAddr6LinkLocal.AsSlice()...)
	b = append(append(b, 1, 1), mac[:]...)
	group := netip.MustParseAddr("ff02::1:fffe:a9fe")
	return ether(seedbed.MAC{0x33, 0x33, 0xff, 0xfe, 0xa9, 0xfe}, mac, unix.ETH_P_IPV6, packet6(from, group, unix.IPPROTO_ICMPV6, b, 2))
}

// syn begins a connection to the metadata service.
func syn(from netip.Addr, mac seedbed.MAC, port uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, port)
	b[3], b[12], b[13], b[14] = 80, 5<<4, 2, 16
	return ether(network0().MAC, mac, unix.ETH_P_IPV6, packet6(from, seedbed.MetadataAddr6LinkLocal, unix.IPPROTO_TCP, b, 16))
}

func sourceOf(n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: 0xba, 9: 0xd0, 14: byte(n >> 8), 15: byte(n)})
}

// TestGuestCannotFillTheNeighbourTableByItsUplink: the same where the node has addresses at the bridge that is the uplink of a
// bridged network. The guest goes on reaching the node, and its neighbour as well.
func TestGuestCannotFillTheNeighbourTableByItsUplink(t *testing.T) {
	for name, prefix := range map[string]string{"addresses of ours": "10.79.0.0/24", "from elsewhere": ""} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			w := newWire(t, "a bridge")
			const nodeAt, port = "10.79.0.9", ":8089"
			node6 := netip.MustParseAddr("fe80::9")
			netnstest.Run(t, "ip", "addr", "add", nodeAt+"/24", "dev", "br0")
			netnstest.Run(t, "ip", "addr", "add", node6.String()+"/64", "dev", "br0", "nodad")
			serve(t, nodeAt+port)
			s := state0()
			w.bridged(&s, prefix)
			apply(t, m, s, Options{})
			g3, g4 := bridgedGuest(t, "sb3", "02:00:00:00:00:03", "10.79.0.3"), bridgedGuest(t, "sb4", "02:00:00:00:00:04", "10.79.0.4")
			ask(t, "the node before", g3, nodeAt+port, "10.79.0.3 mark 0")
			var tx int
			g3.Do(func() { tx = rawSocket(t) })
			t.Cleanup(func() { unix.Close(tx) })
			mac, all := seedbed.MAC{2, 0, 0, 0, 0, 3}, seedbed.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
			for n := range 600 {
				forged := netip.AddrFrom4([4]byte{10, 79, 0, byte(20 + n%200)})
				b := append([]byte{neighbourSolicitation, 0, 0, 0, 0, 0, 0, 0}, node6.AsSlice()...)
				b = append(append(b, 1, 1), mac[:]...)
				group := netip.MustParseAddr("ff02::1:ff00:9")
				for _, frame := range [][]byte{
					ether(seedbed.MAC{0x33, 0x33, 0xff, 0, 0, 9}, mac, unix.ETH_P_IPV6, packet6(sourceOf(n), group, unix.IPPROTO_ICMPV6, b, 2)),
					ether(all, mac, unix.ETH_P_ARP, arp(1, mac, forged, netip.MustParseAddr(nodeAt))),
				} {
					if _, err := unix.Write(tx, frame); err != nil {
						t.Fatal(err)
					}
				}
			}
			ask(t, "the node, from the address that it had", g3, nodeAt+port, "10.79.0.3 mark 0")
			ask(t, "the node, from another guest", g4, nodeAt+port, "10.79.0.4 mark 0")
			entries := netnstest.Run(t, "ip", "neigh", "show", "dev", "br0")
			if n := strings.Count(entries, "lladdr 02:00:00:00:00:03"); n < 2 || n > sourceBurst {
				t.Errorf("%d entries of one guest, want some, and at most %d:\n%s", n, sourceBurst, entries)
			}
			ask(t, "the wire", g3, wireAddr+":8080", "10.79.0.3 mark 0")
		})
	}
}

// TestGuestCannotFillTheNeighbourTable: a guest has a few IPv6 addresses in it, however many it
// sends from, and goes on with those that it had.
func TestGuestCannotFillTheNeighbourTable(t *testing.T) {
	m := open(t)
	apply(t, m, state0(), Options{})
	g1, g2 := guest6(t, "sb1", mac1, ip1), guest6(t, "sb2", mac2, ip2)
	serve6(t, "seedbed0", 80)
	ask(t, "guest 1 before", g1, metadata6Link, said(mac1, 101))
	var tx int
	g1.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx) })
	for n := range 400 {
		frame := solicitation(sourceOf(n), mac1)
		if n%2 == 1 {
			frame = syn(sourceOf(n), mac1, uint16(20000+n))
		}
		if _, err := unix.Write(tx, frame); err != nil {
			t.Fatal(err)
		}
	}
	entries := func() int {
		return strings.Count(netnstest.Run(t, "ip", "-6", "neigh", "show", "dev", "seedbed0"), "fe80::bad0:")
	}
	if n := entries(); n < 4 || n > sourceBurst {
		t.Errorf("%d entries of one guest, want some, and at most %d", n, sourceBurst)
	}
	ask(t, "guest 1, from the address that it had", g1, metadata6Link, said(mac1, 101))
	ask(t, "guest 2", g2, metadata6Link, said(mac2, 102))
	g1.Run(t, "ip", "-6", "addr", "flush", "dev", "eth0")
	g1.Run(t, "ip", "-6", "addr", "add", sourceOf(1000).String()+"/64", "dev", "eth0", "nodad")
	g1.Run(t, "ip", "-6", "route", "replace", "fd00:ec2::254/128", "dev", "eth0")
	ask(t, "guest 1, from one more", g1, metadata6Link, "")

	rules := ruleset(t)
	apply(t, m, state0(), Options{})
	if err := m.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	apply(t, open(t), state0(), Options{})
	if ruleset(t) != rules {
		t.Error("what the kernel noted of guests makes the rules others")
	}
}

// TestGivenAddressesReachTheNode: a guest reaches the node from each address that it was given, however many these are, also after it
// used too many others.
func TestGivenAddressesReachTheNode(t *testing.T) {
	m := open(t)
	s := state0()
	n := &s.Networks[0]
	n.Prefix6 = netip.MustParsePrefix("fd12:3456:789a:1::/64")
	all := []netip.Addr{n.Addr6(mac1)}
	for i := range byte(seedbed.MaxSecondary) {
		b := n.Prefix6.Addr().As16()
		b[14], b[15] = 1, i
		all = append(all, netip.AddrFrom16(b))
	}
	s.Ports[0].Secondary = all[1:]
	apply(t, m, s, Options{})
	g := guest6(t, "sb1", mac1, ip1)
	var tx int
	g.Do(func() { tx = rawSocket(t) })
	t.Cleanup(func() { unix.Close(tx) })
	for n := range 2 * sourceBurst {
		if _, err := unix.Write(tx, solicitation(sourceOf(n), mac1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range all {
		g.Run(t, "ip", "-6", "addr", "add", a.String()+"/64", "dev", "eth0", "nodad")
	}
	for _, a := range all {
		if !answers(true, g, n.NodeAddr6().String(), "-I", a.String()) {
			t.Errorf("%s does not reach the node", a)
		}
	}
}
