package netcfg

import (
	"golang.org/x/sys/unix"

	"seedbed"
)

// ip4Rules decide on IPv4 packets in which the kernel found the end of the header. In any other, the
// rules do not see the ports, but a neighbour that reads frames itself may, as DHCP clients do. Most packets are neither of UDP nor
// from or to a link-local address, and pass few rules.
func ip4Rules() []rule {
	return []rule{
		{"UDP", cat(l4proto(unix.IPPROTO_UDP), jumpChain("ip4-dhcp"))},
		{"from a link-local address", cat(linkLocal4(12), jumpChain("ip4-claims"))},
		{"another's address", cat(notPair(ipSource(), "addrs"), jumpChain("any-address"))},
		{"ICMP redirects", cat(icmp(5), mayNot(mayAdvertise), drop())},
		{"IGMP queries", cat(l4proto(unix.IPPROTO_IGMP), transport(0, igmpQuery), mayNot(mayAdvertise), drop())},
		{"to a link-local address", cat(linkLocal4(16), gotoChain("ip4-services"))},
	}
}

// linkLocal4 matches an IPv4 address in 169.254.0.0/16, as those of the node's services are, at an offset of the packet.
func linkLocal4(offset uint32) exprs { return network(offset, 169, 254) }

func ip4DHCPRules() []rule {
	const udp = unix.IPPROTO_UDP
	return []rule{
		{"a guest as DHCP server", cat(sport(udp, 67), mayNot(mayDHCP), drop())},
		{"to DHCP clients", cat(dport(udp, 68), mayNot(mayDHCP), drop())},
		{"too many DHCP requests", cat(tooManyRequests(dport(udp, 67)), drop())},
		// No server may answer: the guest could send nothing from the address that it got. The node is none either.
		{"DHCP where guests have IPv6 alone", cat(may(noDHCP), dport(udp, 67), drop())},
		{"DHCP that the node answers, no address yet", cat(may(ownDHCP), dport(udp, 67), ipSaddr(zeroAddr), pair(dhcpChaddr(), "macs"),
			markAndTake(), accept())},
		{"DHCP that the node answers", cat(may(ownDHCP), dport(udp, 67), pair(dhcpChaddr(), "macs"), pair(ipSource(), "addrs"),
			markAndTake(), accept())},
		{"DHCP for itself, no address yet", cat(dport(udp, 67), ipSaddr(zeroAddr), pair(dhcpChaddr(), "macs"), accept())},
		{"DHCP for itself", cat(dport(udp, 67), pair(dhcpChaddr(), "macs"), pair(ipSource(), "addrs"), accept())},
		{"DHCP for itself, any address", cat(dport(udp, 67), may(mayAddress), pair(dhcpChaddr(), "macs"), accept())},
		{"DHCP for another", cat(dport(udp, 67), mayNot(mayDHCP), drop())},
	}
}

func ip4ClaimRules() []rule {
	rules := []rule{
		{"the metadata address as its own", cat(ipSaddr(seedbed.MetadataAddr), may(mayClaim), accept())},
		{"from the metadata address", cat(ipSaddr(seedbed.MetadataAddr), drop())},
	}
	return append(rules, ofServices(func(s service) []rule {
		return []rule{{"from " + s.name, cat(ipSaddr(s.addr), may(s.ports), drop())}}
	})...)
}

func ip4ServiceRules() []rule {
	const tcp = unix.IPPROTO_TCP
	rules := []rule{
		{"fragments to the metadata address", cat(ipDaddr(seedbed.MetadataAddr), ipFragment(), drop())},
		{"too many connections to metadata", cat(ipDaddr(seedbed.MetadataAddr), dport(tcp, 80), tooManyCalls(), drop())},
		{"metadata: mark, and off the wire", cat(ipDaddr(seedbed.MetadataAddr), dport(tcp, 80), markAndTake())},
	}
	return append(rules, ofServices(func(s service) []rule { return s.taken(ipDaddr(s.addr), ipFragment()) })...)
}

// arpRules let a guest announce only its own address, so that no guest can claim the gateway, the
// metadata address or a neighbour's. A probe (RFC 5227) has no sender address; it too may only ask
// for the guest's own.
func arpRules() []rule {
	a := seedbed.MetadataAddr.AsSlice()
	claim, probe := network(14, a...), cat(network(14, 0, 0, 0, 0), network(24, a...))
	rules := []rule{
		{"ARP of another kind than IPv4 on Ethernet", cat(not(network(0, 0, 1, 8, 0, 6, 4)), drop())},
		{"ARP with another's MAC", cat(notPair(arpSha(), "macs"), drop())},
		{"ARP claim of the metadata address, allowed", cat(claim, may(mayClaim), accept())},
		{"ARP claim of the metadata address", cat(claim, drop())},
		{"ARP probe of the metadata address", cat(probe, mayNot(mayClaim), drop())},
	}
	rules = append(rules, ofServices(func(s service) []rule {
		a := s.addr.AsSlice()
		return []rule{
			{"ARP claim of " + s.name, cat(network(14, a...), may(s.ports), drop())},
			{"ARP probe of " + s.name, cat(network(14, 0, 0, 0, 0), network(24, a...), may(s.ports), drop())},
			{"ARP for " + s.name + ": mark, and off the wire", cat(may(onWire), network(24, a...), may(s.ports), pair(arpSpa(), "addrs"),
				markAndTake(), accept())},
			{"ARP for " + s.name + ", from any address: mark, and off the wire", cat(may(onWire), network(24, a...), may(s.ports),
				may(mayAddress), markAndTake(), accept())},
		}
	})...)
	return append(rules, []rule{
		{"ARP for the metadata address: mark, and off the wire", cat(may(onWire), network(24, a...),
			pair(arpSpa(), "addrs"), markAndTake(), accept())},
		{"ARP for the metadata address, from any address: mark, and off the wire", cat(may(onWire), network(24, a...),
			may(mayAddress), markAndTake(), accept())},
		{"ARP from its own address", cat(pair(arpSpa(), "addrs"), accept())},
		{"ARP probe of its own address", cat(network(14, 0, 0, 0, 0), pair(arpTpa(), "addrs"), accept())},
		{"ARP for another's address", cat(mayNot(mayAddress), drop())},
	}...)
}
