package netcfg

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

// The sets of the ports of bridges to overlays, of the addresses of nodes, and of the numbers of overlays as they are in a
// packet.
const (
	overlayPorts = "overlays"
	nodeAddrs    = "nodes"
	nodeAddrs6   = "nodes6"
	overlayVNIs  = "vnis"
)

// overlaySets returns those of the bridge table.
func overlaySets() []set {
	return append([]set{{name: overlayPorts, key: nftables.TypeIFName, fixed: func(p *plan, add func(key, value string)) {
		for _, u := range p.uplinks {
			if u.made == madeVXLAN {
				add(string(ifname(u.port)), "")
			}
		}
	}}}, nodeSets()...)
}

// nodeSets returns the sets of the addresses of nodes, if there are overlays.
func nodeSets() []set {
	some := func(name string, key nftables.SetDatatype, of func(netip.Addr) bool) set {
		return set{name: name, key: key, fixed: func(p *plan, add func(key, value string)) {
			for _, a := range p.nodes {
				if of(a) && p.overlaid() {
					add(string(a.AsSlice()), "")
				}
			}
		}}
	}
	return []set{some(nodeAddrs, nftables.TypeIPAddr, netip.Addr.Is4), some(nodeAddrs6, nftables.TypeIP6Addr, netip.Addr.Is6)}
}

func (p *plan) overlaid() bool {
	return slices.ContainsFunc(p.networks, func(n seedbed.Network) bool { return n.VNI != 0 })
}

// vniSet has the last four bytes of the VXLAN header of each overlay: three of its number, and a reserved one.
func vniSet() set {
	return set{name: overlayVNIs, key: nftables.TypeMark, fixed: func(p *plan, add func(key, value string)) {
		for _, n := range p.networks {
			if n.VNI != 0 {
				add(string(binary.BigEndian.AppendUint32(nil, uint32(n.VNI)<<8)), "")
			}
		}
	}}
}

// fromStrangers drops what comes for an overlay from elsewhere than a node. Other uses of VXLAN on the node are not affected.
func fromStrangers() []rule {
	ours := cat(dport(unix.IPPROTO_UDP, vxlanPort), exprs{load(expr.PayloadBaseTransportHeader, 1, 12, 4),
		&expr.Lookup{SourceRegister: 1, SetName: overlayVNIs}})
	stranger := func(offset, size uint32, set string) exprs {
		return exprs{load(expr.PayloadBaseNetworkHeader, 1, offset, size), &expr.Lookup{SourceRegister: 1, SetName: set, Invert: true}}
	}
	return []rule{
		{"for an overlay, not from a node", cat(ipv4(), ours, stranger(12, 4, nodeAddrs), drop())},
		{"for an overlay, not from a node, over IPv6", cat(ipv6(), ours, stranger(8, 16, nodeAddrs6), drop())},
	}
}

// guestsToNodes drops what guests send to the VXLAN of a node: behind NAT it would come from one.
func guestsToNodes() []rule {
	return []rule{{"a guest to the overlays of a node", cat(ipv4(), in(expr.MetaKeyIIFNAME, "bridges"), dport(unix.IPPROTO_UDP, vxlanPort),
		exprs{ipTarget(), &expr.Lookup{SourceRegister: 2, SetName: nodeAddrs}}, drop())}}
}

// overlayRules decide on what leaves by an overlay's VXLAN: each node answers its own guests.
func overlayRules() []rule {
	const udp = unix.IPPROTO_UDP
	rules := []rule{
		{"not to an overlay", cat(notIn(expr.MetaKeyOIFNAME, overlayPorts), accept())},
		{"DHCP", cat(ethertype(unix.ETH_P_IP), dport(udp, 67), drop())},
		{"answers to DHCP", cat(ethertype(unix.ETH_P_IP), dport(udp, 68), drop())},
		{"DHCPv6", cat(ethertype(unix.ETH_P_IPV6), dport(udp, 547), drop())},
		{"answers to DHCPv6", cat(ethertype(unix.ETH_P_IPV6), dport(udp, 546), drop())},
		{"router solicitations and advertisements", cat(ethertype(unix.ETH_P_IPV6), icmp6Types(routerSolicitation, routerAdvertisement), drop())},
		{"ARP for the metadata address", cat(ethertype(unix.ETH_P_ARP), network(24, seedbed.MetadataAddr.AsSlice()...), drop())},
		{"ARP for the node", cat(ethertype(unix.ETH_P_ARP), pairOf(expr.MetaKeyOIFNAME, arpTpa(), "uplink-services"), drop())},
	}
	for _, a := range metadata6() {
		rules = append(rules, rule{"solicitation of " + a.String(), cat(ethertype(unix.ETH_P_IPV6), icmp6(neighbourSolicitation),
			ndTarget(a), drop())})
	}
	return rules
}
