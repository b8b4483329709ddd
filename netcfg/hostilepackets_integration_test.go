//go:build integration

package netcfg

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"seedbed"
)

// resum corrects the checksum of an IPv4 header, of the length that it says.
func resum(packet []byte) []byte {
	b := altered(packet, 10, 0, 0)
	var sum uint32
	for i := 0; i < min(len(b), int(b[0]&15)*4); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	sum = sum>>16 + sum&0xffff
	return altered(b, 10, be16(^uint16(sum+sum>>16))...)
}

// withOptions puts IPv4 options of a multiple of four bytes behind the header.
func withOptions(packet []byte, options ...byte) []byte {
	b := slices.Insert(slices.Clone(packet), 20, options...)
	b = altered(b, 0, 0x45+byte(len(options)/4))
	return resum(altered(b, 2, be16(uint16(len(b)))...))
}

func ip4Frames() []hostileFrame {
	server := ip4(ip1, everybody, unix.IPPROTO_UDP, 0, dhcpServer)
	var out []hostileFrame
	for _, n := range []int{0, 1, 4, 9, 12, 15, 16, 19} {
		out = append(out, hostileFrame{fmt.Sprintf("%d bytes of a header", n), toAll(unix.ETH_P_IP, fineUDP[:n]), nobody})
	}
	for name, source := range map[string]netip.Addr{"the neighbour": ip2, "the gateway": gw, "the metadata address": seedbed.MetadataAddr,
		"nowhere": zeroAddr, "all": everybody, "a group": netip.MustParseAddr("224.0.0.1"), "the loopback": netip.MustParseAddr("127.0.0.1"),
		"the node's uplink": netip.MustParseAddr("192.0.2.1"), "outside": netip.MustParseAddr("203.0.113.9")} {
		for _, to := range []netip.Addr{everybody, gw, seedbed.MetadataAddr} {
			b := ip4(source, to, unix.IPPROTO_UDP, 0, udp(1000, 2000, []byte("hello")))
			out = append(out, hostileFrame{fmt.Sprintf("from %s to %s", name, to), toAll(unix.ETH_P_IP, b), nobody})
		}
	}
	return append(out, []hostileFrame{
		{"version 0", toAll(unix.ETH_P_IP, altered(fineUDP, 0, 0x05)), nobody},
		{"version 6", toAll(unix.ETH_P_IP, altered(fineUDP, 0, 0x65)), nobody},
		{"IPv6 as IPv4", toAll(unix.ETH_P_IP, fineND), nobody},
		{"a header of 4 words", toAll(unix.ETH_P_IP, resum(altered(fineUDP, 0, 0x44))), nobody},
		{"a header of no words", toAll(unix.ETH_P_IP, altered(fineUDP, 0, 0x40)), nobody},
		{"a header longer than the packet", toAll(unix.ETH_P_IP, altered(fineUDP, 0, 0x4f)), nobody},
		{"longer than the frame", toAll(unix.ETH_P_IP, resum(altered(fineUDP, 2, 1, 0))), nobody},
		{"shorter than its header", toAll(unix.ETH_P_IP, resum(altered(fineUDP, 2, 0, 10))), nobody},
		{"of no length", toAll(unix.ETH_P_IP, resum(altered(fineUDP, 2, 0, 0))), nobody},
		{"with a wrong checksum", toAll(unix.ETH_P_IP, altered(fineUDP, 10, 0, 0)), all},
		{"DHCP server, longer than the frame", toAll(unix.ETH_P_IP, resum(altered(server, 2, 2, 0))), nobody},
		{"DHCP server, version 0", toAll(unix.ETH_P_IP, resum(altered(server, 0, 0x05))), nobody},
		{"DHCP server, shorter than its header", toAll(unix.ETH_P_IP, resum(altered(server, 2, 0, 19))), nobody},
		{"DHCP server, only the header's length", toAll(unix.ETH_P_IP, resum(altered(server, 2, 0, 20))), nobody},
		{"DHCP server, behind options", toAll(unix.ETH_P_IP, withOptions(server, 1, 1, 1, 1)), nobody},
		{"DHCP server to the neighbour", ether(mac2, mac1, unix.ETH_P_IP, resum(altered(server, 16, ip2.AsSlice()...))), nobody},
		{"ICMP redirect behind options", toAll(unix.ETH_P_IP, withOptions(ip4(ip1, everybody, unix.IPPROTO_ICMP, 0,
			append([]byte{5, 1}, make([]byte, 40)...)), 1, 1, 1, 1)), nobody},
		{"a source route", toAll(unix.ETH_P_IP, withOptions(fineUDP, 131, 7, 4, 198, 51, 100, 2, 0)), all},
		{"UDP without ports", toAll(unix.ETH_P_IP, ip4(ip1, everybody, unix.IPPROTO_UDP, 0, nil)), all},
		{"an unknown protocol", toAll(unix.ETH_P_IP, ip4(ip1, everybody, 253, 0, []byte("hello"))), all},
		{"IPv6 in IPv4 to the node", toNode(unix.ETH_P_IP, ip4(ip1, gw, unix.IPPROTO_IPV6, 0, fineND)), bridged},
		{"GRE to the node", toNode(unix.ETH_P_IP, ip4(ip1, gw, unix.IPPROTO_GRE, 0, []byte{0, 0, 8, 0})), bridged},
		{"IGMP query", toAll(unix.ETH_P_IP, resum(altered(ip4(ip1, netip.MustParseAddr("224.0.0.1"), 2, 0,
			[]byte{0x11, 1, 0xee, 0xfe, 0, 0, 0, 0}), 8, 1))), nobody},
	}...)
}

func fragmentFrames() []hostileFrame {
	const more = 0x2000
	fragment := func(src, dst netip.Addr, at uint16, payload []byte) []byte {
		return toAll(unix.ETH_P_IP, ip4(src, dst, unix.IPPROTO_UDP, at, payload))
	}
	tcp := make([]byte, 24)
	tcp[3], tcp[12], tcp[13] = 80, 5<<4, 2
	return []hostileFrame{
		{"first, to all", fragment(ip1, everybody, more, udp(1000, 2000, make([]byte, 8))), all},
		{"later, to all", fragment(ip1, everybody, 2, make([]byte, 16)), all},
		{"that overlaps, to all", fragment(ip1, everybody, more|1, make([]byte, 16)), all},
		{"beyond the longest packet", fragment(ip1, everybody, 0x1fff, make([]byte, 64)), all},
		{"of one byte", fragment(ip1, everybody, more|1, make([]byte, 1)), all},
		{"from the neighbour", fragment(ip2, everybody, more, udp(1000, 2000, make([]byte, 8))), nobody},
		{"later, from the neighbour", fragment(ip2, everybody, 2, make([]byte, 16)), nobody},
		{"DHCP server, first", fragment(ip1, everybody, more, dhcpServer[:200]), nobody},
		{"DHCP request, without the client", fragment(ip1, everybody, more, dhcpClient[:32]), nobody},
		{"DHCP request of another, first", fragment(ip1, everybody, more, dhcpStranger[:200]), nobody},
		{"first, to metadata", fragment(ip1, seedbed.MetadataAddr, more, tcp), nobody},
		{"later, to metadata", fragment(ip1, seedbed.MetadataAddr, 3, tcp), nobody},
		{"first of TCP, to metadata", toNode(unix.ETH_P_IP, ip4(ip1, seedbed.MetadataAddr, unix.IPPROTO_TCP, more, tcp)), nobody},
		{"later of TCP, to metadata", toNode(unix.ETH_P_IP, ip4(ip1, seedbed.MetadataAddr, unix.IPPROTO_TCP, 1, tcp)), nobody},
		{"first, to the node", toNode(unix.ETH_P_IP, ip4(ip1, gw, unix.IPPROTO_ICMP, more, []byte{8, 0, 0, 0, 0, 9, 0, 0})), bridged},
	}
}

func arpFrames() []hostileFrame {
	var out []hostileFrame
	for n := range len(fineARP) {
		out = append(out, hostileFrame{fmt.Sprintf("%d bytes", n), toAll(unix.ETH_P_ARP, fineARP[:n]), nobody})
	}
	for _, op := range []uint16{0, 3, 4, 8, 9, 10, 0xffff} {
		out = append(out, hostileFrame{fmt.Sprintf("operation %d", op), toAll(unix.ETH_P_ARP, altered(fineARP, 6, be16(op)...)), all | node})
	}
	return append(out, []hostileFrame{
		{"of hardware 6", toAll(unix.ETH_P_ARP, altered(fineARP, 0, 0, 6)), nobody},
		{"for IPv6", toAll(unix.ETH_P_ARP, altered(fineARP, 2, 0x86, 0xdd)), nobody},
		{"for any protocol", toAll(unix.ETH_P_ARP, altered(fineARP, 2, 0, 0)), nobody},
		{"with hardware addresses of 8 bytes", toAll(unix.ETH_P_ARP, append(altered(fineARP, 4, 8), make([]byte, 20)...)), nobody},
		{"with addresses of 16 bytes", toAll(unix.ETH_P_ARP, append(altered(fineARP, 5, 16), make([]byte, 40)...)), nobody},
		{"with addresses of no bytes", toAll(unix.ETH_P_ARP, altered(fineARP, 4, 0, 0)), nobody},
		{"with more behind it", toAll(unix.ETH_P_ARP, append(slices.Clone(fineARP), make([]byte, 1000)...)), all | node | answered},
		{"from the neighbour's address", toAll(unix.ETH_P_ARP, arp(1, mac1, ip2, gw)), nobody},
		{"from the gateway", toAll(unix.ETH_P_ARP, arp(2, mac1, gw, ip2)), nobody},
		{"from the metadata address", toAll(unix.ETH_P_ARP, arp(2, mac1, seedbed.MetadataAddr, ip2)), nobody},
		{"probe of the metadata address", toAll(unix.ETH_P_ARP, arp(1, mac1, zeroAddr, seedbed.MetadataAddr)), nobody},
		{"probe of the neighbour's address", toAll(unix.ETH_P_ARP, arp(1, mac1, zeroAddr, ip2)), nobody},
		{"probe of its own address", toAll(unix.ETH_P_ARP, arp(1, mac1, zeroAddr, ip1)), all | node},
		{"from all", toAll(unix.ETH_P_ARP, arp(1, mac1, everybody, gw)), nobody},
		{"with the neighbour's MAC", toAll(unix.ETH_P_ARP, arp(2, mac2, ip1, ip2)), nobody},
		{"with a group's MAC", toAll(unix.ETH_P_ARP, arp(2, broadcast, ip1, ip2)), nobody},
		{"with the neighbour's MAC, to it", ether(mac2, mac1, unix.ETH_P_ARP, arp(2, mac2, ip1, ip2)), nobody},
		{"reverse ARP", toAll(0x8035, fineARP), nobody},
	}...)
}

func dhcpFrames() []hostileFrame {
	request := func(payload []byte) []byte {
		return toAll(unix.ETH_P_IP, ip4(ip1, everybody, unix.IPPROTO_UDP, 0, payload))
	}
	return []hostileFrame{
		{"a reply to the server", request(udp(68, 67, altered(dhcpRequest(mac1), 0, 2))), all | node},
		{"relayed", request(udp(68, 67, altered(dhcpRequest(mac1), 24, 10, 0, 0, 1))), all | node},
		{"with a client's address of 16 bytes", request(udp(68, 67, altered(dhcpRequest(mac1), 2, 16))), all | node},
		{"with options that are cut", request(udp(68, 67, append(dhcpRequest(mac1), 0x63, 0x82, 0x53, 0x63, 53, 200))), all | node},
		{"with a UDP length of 8", request(altered(dhcpClient, 4, 0, 8)), all | node},
		{"of another client", request(dhcpStranger), nobody},
		{"of another client, behind options",
			toAll(unix.ETH_P_IP, withOptions(ip4(ip1, everybody, unix.IPPROTO_UDP, 0, dhcpStranger), 1, 1, 1, 1)), nobody},
		{"of no client", request(dhcpClient[:20]), nobody},
		{"of half a client", request(dhcpClient[:39]), nobody},
		{"from the server's port", request(udp(67, 67, dhcpRequest(mac1))), nobody},
		{"to clients from another port", request(udp(6767, 68, make([]byte, 300))), nobody},
		{"from the neighbour's address", toAll(unix.ETH_P_IP, ip4(ip2, everybody, unix.IPPROTO_UDP, 0, dhcpClient)), nobody},
		{"from the gateway", toAll(unix.ETH_P_IP, ip4(gw, everybody, unix.IPPROTO_UDP, 0, dhcpServer)), nobody},
	}
}

func ip6Frames() []hostileFrame {
	ll1, everyNode := linkLocalOf(mac1), netip.MustParseAddr("ff02::1")
	to := func(packet []byte) []byte {
		return ether(seedbed.MAC{0x33, 0x33, 0, 0, 0, 1}, mac1, unix.ETH_P_IPV6, packet)
	}
	fine := ip6From(ll1, everyNode, unix.IPPROTO_UDP, udp(1000, 2000, []byte("hello")))
	ra := append([]byte{134, 0}, make([]byte, 14)...)
	var out []hostileFrame
	for _, n := range []int{0, 1, 7, 8, 23, 24, 39, 40, 44} {
		out = append(out, hostileFrame{fmt.Sprintf("%d bytes", n), to(fine[:n]), nobody})
	}
	return append(out, []hostileFrame{
		{"as it should be", to(fine), all},
		{"version 4", to(altered(fine, 0, 0x40)), nobody},
		{"IPv4 as IPv6", to(fineUDP), nobody},
		{"longer than the frame", to(altered(fine, 4, 1, 0)), nobody},
		{"from a global address", to(ip6From(netip.MustParseAddr("2001:db8::5"), everyNode, unix.IPPROTO_UDP, fine[40:])), nobody},
		{"from nowhere", to(ip6From(zero6, everyNode, unix.IPPROTO_UDP, fine[40:])), nobody},
		{"from a group", to(ip6From(everyNode, everyNode, unix.IPPROTO_UDP, fine[40:])), nobody},
		{"from the metadata address", to(ip6From(seedbed.MetadataAddr6, everyNode, unix.IPPROTO_UDP, fine[40:])), nobody},
		{"from IPv4 in IPv6", to(ip6From(netip.MustParseAddr("::ffff:10.77.0.12"), everyNode, unix.IPPROTO_UDP, fine[40:])), nobody},
		{"router advertisement", to(ip6From(ll1, everyNode, 58, ra)), nobody},
		{"router advertisement behind eight headers", to(ip6From(ll1, everyNode, 60, append(append(slices.Repeat(
			[]byte{60, 0, 1, 4, 0, 0, 0, 0}, 7), 58, 0, 1, 4, 0, 0, 0, 0), ra...))), nobody},
		{"router advertisement in a fragment", to(ip6From(ll1, everyNode, 44, append([]byte{58, 0, 0, 0, 0, 0, 0, 9}, ra...))), nobody},
		{"router advertisement behind a header and in a fragment", to(ip6From(ll1, everyNode, 44, append([]byte{60, 0, 0, 1, 0, 0, 0, 9,
			58, 0, 1, 4, 0, 0, 0, 0}, ra...))), nobody},
		{"a fragment that cuts the headers", to(ip6From(ll1, everyNode, 44, []byte{60, 0, 0, 1, 0, 0, 0, 9, 58, 2, 1, 4, 0, 0, 0, 0})), nobody},
		{"a routing header of type 0, cut", to(ip6From(ll1, everyNode, 43, []byte{58, 2, 0, 1, 0, 0, 0, 0})), nobody},
		{"headers that do not end", to(ip6From(ll1, everyNode, 0, []byte{0, 0, 1, 4, 0, 0, 0, 0})), nobody},
		{"no header behind it", to(ip6From(ll1, everyNode, 59, nil)), nobody},
		{"MLD query", to(mldQueryFrom(ll1)), nobody},
		{"DHCPv6 server", to(ip6From(ll1, everyNode, unix.IPPROTO_UDP, udp(547, 546, make([]byte, 20)))), nobody},
		{"DHCPv6 server behind a header", to(ip6From(ll1, everyNode, 60, append([]byte{17, 0, 1, 4, 0, 0, 0, 0},
			udp(547, 546, make([]byte, 20))...))), nobody},
	}...)
}

// mldQueryFrom is a general query as a router sends it (RFC 2710), which the bridge looks for.
func mldQueryFrom(src netip.Addr) []byte {
	query := append([]byte{mldQuery, 0, 0, 0, 0x27, 0x10}, make([]byte, 18)...)
	b := packet6(src, netip.MustParseAddr("ff02::1"), unix.IPPROTO_ICMPV6, query, 2)
	b = altered(altered(b, 4, 0, 32), 6, 0, 1)
	return slices.Insert(b, 40, unix.IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0)
}

func ndFrames() []hostileFrame {
	ll1, ll2 := linkLocalOf(mac1), linkLocalOf(mac2)
	asked := seedbed.MetadataAddr6LinkLocal
	group := netip.MustParseAddr("ff02::1:fffe:a9fe")
	// plain is ICMPv6 with its checksum, from guest 1 to those who may have the metadata address.
	plain := func(src netip.Addr, b []byte) []byte {
		return ether(solicitGroup, mac1, unix.ETH_P_IPV6, packet6(src, group, unix.IPPROTO_ICMPV6, slices.Clone(b), 2))
	}
	solicit := nd(135, asked, ndOption(1, mac1))
	return []hostileFrame{
		{"solicitation", plain(ll1, solicit), all | node | answered},
		{"solicitation without an option", plain(ll1, nd(135, asked)), all | node | answered},
		{"solicitation, hop limit 64", altered(plain(ll1, solicit), 14+7, 64), all | node},
		{"solicitation, another code", plain(ll1, altered(solicit, 1, 1)), all | node},
		{"solicitation, wrong checksum", altered(plain(ll1, solicit), 14+40+2, 0xba, 0xd0), all | node},
		{"solicitation, an option of no length", plain(ll1, altered(solicit, 25, 0)), all | node},
		{"solicitation of 8 bytes", plain(ll1, solicit[:8]), nobody},
		{"solicitation of 23 bytes", plain(ll1, append(slices.Clone(solicit[:22]), 0)), nobody},
		{"solicitation with half an option", plain(ll1, solicit[:28]), nobody},
		{"solicitation with two options", plain(ll1, nd(135, asked, ndOption(1, mac1), ndOption(1, mac2))), nobody},
		{"solicitation with the neighbour's MAC", plain(ll1, nd(135, asked, ndOption(1, mac2))), nobody},
		{"solicitation with the neighbour's MAC as target's", plain(ll1, nd(135, asked, ndOption(2, mac2))), nobody},
		{"solicitation from the metadata address", plain(asked, solicit), nobody},
		{"solicitation from a global address", plain(netip.MustParseAddr("2001:db8::5"), solicit), nobody},
		{"probe of the metadata address", plain(zero6, nd(135, asked)), nobody},
		{"advertisement of the metadata address", plain(ll1, nd(136, asked, ndOption(2, mac1))), nobody},
		{"advertisement of Amazon's address", plain(ll1, nd(136, seedbed.MetadataAddr6, ndOption(2, mac1))), nobody},
		{"advertisement with the neighbour's MAC", plain(ll1, nd(136, ll2, ndOption(2, mac2))), nobody},
		{"router advertisement", plain(ll1, append([]byte{134, 0, 0, 0}, make([]byte, 12)...)), nobody},
		{"redirect", plain(ll1, append([]byte{137, 0, 0, 0}, make([]byte, 36)...)), nobody},
		{"router solicitation with the neighbour's MAC", plain(ll1, append([]byte{133, 0, 0, 0, 0, 0, 0, 0}, ndOption(1, mac2)...)), nobody},
		{"solicitation behind a header", ether(solicitGroup, mac1, unix.ETH_P_IPV6,
			ip6From(ll1, group, 60, append([]byte{58, 0, 1, 4, 0, 0, 0, 0},
				solicit...))), nobody},
		{"solicitation in a whole fragment", ether(solicitGroup, mac1, unix.ETH_P_IPV6,
			ip6From(ll1, group, 44, append([]byte{58, 0, 0, 0, 0, 0, 0, 9},
				solicit...))), nobody},
	}
}
