//go:build integration

package netcfg

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"seedbed"
)

type hostileFrame struct {
	name  string
	frame []byte
	want  sight
}

type hostileClass struct {
	name   string
	frames []hostileFrame
}

const all = neighbour | bridged

// hostileFrames returns the table of TestHostileFrames, by class: frames of guest 1, whose address is
// ip1, and who may see each.
func hostileFrames() []hostileClass {
	return []hostileClass{
		{"what a guest may send", permittedFrames()},
		{"reserved group addresses", groupFrames()},
		{"sources of frames", sourceFrames()},
		{"tags", tagFrames()},
		{"IPv4", ip4Frames()},
		{"ARP", arpFrames()},
		{"DHCP", dhcpFrames()},
		{"IPv6", ip6Frames()},
		{"neighbour discovery", ndFrames()},
		{"IPv4 fragments", fragmentFrames()}, // last, since the node reports after a while that it has only a part
	}
}

func toAll(typ uint16, payload []byte) []byte { return ether(broadcast, mac1, typ, payload) }

func toNode(typ uint16, payload []byte) []byte { return ether(network0().MAC, mac1, typ, payload) }

// The frames from which the others are made: each is one that guest 1 may send.
var (
	fineUDP      = ip4(ip1, everybody, unix.IPPROTO_UDP, 0, udp(1000, 2000, []byte("hello")))
	fineARP      = arp(1, mac1, ip1, gw)
	fineND       = solicitation(linkLocalOf(mac1), mac1)[14:]
	dhcpServer   = udp(67, 68, make([]byte, 300))
	dhcpClient   = udp(68, 67, dhcpRequest(mac1))
	dhcpStranger = udp(68, 67, dhcpRequest(mac2))
)

// solicitGroup is where neighbours ask for the metadata address.
var solicitGroup = seedbed.MAC{0x33, 0x33, 0xff, 0xfe, 0xa9, 0xfe}

// altered returns a copy of b with other bytes from an offset on.
func altered(b []byte, at int, to ...byte) []byte {
	b = slices.Clone(b)
	copy(b[at:], to)
	return b
}

func permittedFrames() []hostileFrame {
	return []hostileFrame{
		{"UDP to all", toAll(unix.ETH_P_IP, fineUDP), all},
		{"UDP to the node", toNode(unix.ETH_P_IP, ip4(ip1, gw, unix.IPPROTO_UDP, 0, udp(1000, 2000, []byte("hello")))), bridged},
		{"ARP question for the gateway", toAll(unix.ETH_P_ARP, fineARP), all | node | answered},
		{"ARP question for the metadata address", toAll(unix.ETH_P_ARP, arp(1, mac1, ip1, seedbed.MetadataAddr)), all | node | answered},
		{"ARP question for another address of the node", toAll(unix.ETH_P_ARP, arp(1, mac1, ip1, netip.MustParseAddr("192.0.2.1"))), all | node},
		{"ARP question for a neighbour", toAll(unix.ETH_P_ARP, arp(1, mac1, ip1, ip2)), all | node},
		{"DHCP request", toAll(unix.ETH_P_IP, ip4(zeroAddr, everybody, unix.IPPROTO_UDP, 0, dhcpClient)), all | node},
		{"solicitation of the metadata address", ether(solicitGroup, mac1, unix.ETH_P_IPV6, fineND), all | node | answered},
	}
}

// groupFrames are frames to the addresses that a bridge does not forward (IEEE 802.1D 7.12.6). The
// first is that of the spanning tree, which is off, so that the kernel forwards it to guests.
func groupFrames() []hostileFrame {
	var out []hostileFrame
	for last := range 16 {
		to := seedbed.MAC{1, 0x80, 0xc2, 0, 0, byte(last)}
		fine := nobody
		if last == 0 {
			fine = neighbour
		}
		for _, f := range []struct {
			name    string
			typ     uint16
			payload []byte
			want    sight
		}{
			{"UDP", unix.ETH_P_IP, fineUDP, fine},
			{"an echo", unix.ETH_P_IP, ip4(ip1, gw, unix.IPPROTO_ICMP, 0, []byte{8, 0, 0xf7, 0xfe, 0, 1, 0, 0}), fine},
			{"ARP", unix.ETH_P_ARP, fineARP, fine},
			{"ARP of a forged sender", unix.ETH_P_ARP, arp(1, mac1, ip2, gw), nobody},
			{"DHCP server", unix.ETH_P_IP, ip4(ip1, everybody, unix.IPPROTO_UDP, 0, dhcpServer), nobody},
			{"solicitation", unix.ETH_P_IPV6, fineND, fine},
			{"LLDP", 0x88cc, make([]byte, 46), nobody},
			{"slow protocols", 0x8809, make([]byte, 46), nobody},
			{"802.1X", 0x888e, make([]byte, 46), nobody},
			{"spanning tree", 38, append([]byte{0x42, 0x42, 3}, make([]byte, 43)...), nobody},
		} {
			out = append(out, hostileFrame{fmt.Sprintf("%s to %s", f.name, to), ether(to, mac1, f.typ, f.payload), f.want})
		}
	}
	return out
}

func sourceFrames() []hostileFrame {
	var out []hostileFrame
	for name, mac := range map[string]seedbed.MAC{
		"the neighbour's": mac2, "the bridge's": network0().MAC, "no": {}, "the broadcast": broadcast,
		"a group's": {1, 0x80, 0xc2, 0, 0, 0x0e}, "an unknown": {2, 0, 0, 0, 0, 9},
	} {
		for _, to := range []seedbed.MAC{broadcast, network0().MAC, mac2, {1, 0x80, 0xc2, 0, 0, 0x0e}} {
			for _, f := range []struct {
				typ     uint16
				payload []byte
			}{{unix.ETH_P_IP, fineUDP}, {unix.ETH_P_ARP, arp(1, mac, ip1, gw)}, {unix.ETH_P_IPV6, fineND}} {
				out = append(out, hostileFrame{fmt.Sprintf("type %#04x from %s MAC to %s", f.typ, name, to), ether(to, mac, f.typ, f.payload), nobody})
			}
		}
	}
	return out
}

// tagFrames are what a guest may send, in one to three VLAN tags of each kind.
func tagFrames() []hostileFrame {
	var out []hostileFrame
	kinds := []uint16{unix.ETH_P_8021Q, unix.ETH_P_8021AD, 0x9100}
	var nest func(name string, tags []uint16)
	nest = func(name string, tags []uint16) {
		for _, id := range []uint16{0, 5, 4095} {
			for _, f := range []struct {
				name    string
				typ     uint16
				payload []byte
			}{{"UDP", unix.ETH_P_IP, fineUDP}, {"ARP", unix.ETH_P_ARP, fineARP}, {"solicitation", unix.ETH_P_IPV6, fineND}} {
				typ, payload := f.typ, f.payload
				for _, kind := range slices.Backward(tags) {
					typ, payload = kind, slices.Concat(be16(id), be16(typ), payload)
				}
				out = append(out, hostileFrame{fmt.Sprintf("%s in%s, number %d", f.name, name, id), toAll(typ, payload), nobody})
			}
		}
		if len(tags) == 3 {
			return
		}
		for _, k := range kinds {
			nest(fmt.Sprintf("%s %#04x", name, k), append(slices.Clone(tags), k))
		}
	}
	for _, k := range kinds {
		nest(fmt.Sprintf(" %#04x", k), []uint16{k})
	}
	return out
}
