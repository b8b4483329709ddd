package netcfg

import (
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

// Offsets in the IPv6 header and behind it (RFC 8200, RFC 4861). Those of the transport header
// count from the start of ICMPv6.
func ip6Saddr(a netip.Addr) exprs { return network(8, a.AsSlice()...) }
func ip6Daddr(a netip.Addr) exprs { return network(24, a.AsSlice()...) }
func ndTarget(a netip.Addr) exprs { return transport(8, a.AsSlice()...) }
func ip6Length(n uint16) exprs    { return network(4, be16(n)...) }
func icmp6Types(from, to byte) exprs {
	return cat(l4proto(unix.IPPROTO_ICMPV6), transportRange(0, from, to))
}
func ndOptionMAC(at uint32) exprs {
	return notPair(load(expr.PayloadBaseTransportHeader, 2, at+2, 6), "macs")
}
func ip6Source() *expr.Payload          { return load(expr.PayloadBaseNetworkHeader, 2, 8, 16) }
func ip6Target() *expr.Payload          { return load(expr.PayloadBaseNetworkHeader, 2, 24, 16) }
func ndTargetAny() *expr.Payload        { return load(expr.PayloadBaseTransportHeader, 2, 8, 16) }
func isLinkLayerOption(at uint32) exprs { return transportRange(at, 1, 2) }

// linkLocal matches a source in fe80::/10.
func linkLocal() exprs { return masked(network(8, 0xfe, 0x80), 0xff, 0xc0) }

// ofLink matches neighbour discovery about an address in fe80::/10.
func ofLink() exprs { return masked(transport(8, 0xfe, 0x80), 0xff, 0xc0) }

// ip6Fragment matches a packet with a fragment header anywhere.
func ip6Fragment() exprs {
	return exprs{
		&expr.Exthdr{DestRegister: 1, Type: unix.IPPROTO_FRAGMENT, Len: 1, Flags: unix.NFT_EXTHDR_F_PRESENT, Op: expr.ExthdrOpIpv6},
		compare(expr.CmpOpEq, 1),
	}
}

// The types of ICMPv6 (RFC 4861, RFC 2710, RFC 3810).
const (
	packetTooBig             = 2
	mldQuery                 = 130 // see igmpQuery
	mldReport, mldDone       = 131, 132
	routerSolicitation       = 133
	routerAdvertisement      = 134
	neighbourSolicitation    = 135
	neighbourAdvertisement   = 136
	icmp6Redirect            = 137
	mld2Report               = 143
	optionAt, soleOptionSize = 24, 8
	// ndTargetAt is where neighbour discovery has its target, from the start of an IPv6 packet without further headers.
	ndTargetAt = 40 + 8
)

// ip6Rules let guests use their own address of the network's prefix, and link-local addresses, which they choose themselves,
// and keep them from configuring their neighbours. A guest may take the link-local address of another: over IPv6 the
// metadata service relies on the mark, and its answers leave only by the marked port. No guest may
// claim the metadata addresses.
//
// A packet whose header chain does not end in its first fragment cannot be classified (RFC 7113).
// It is dropped, and so are its other fragments.
func ip6Rules() []rule {
	const udp, tcp = unix.IPPROTO_UDP, unix.IPPROTO_TCP
	var rules []rule
	for _, a := range metadata6() {
		name := a.String()
		rules = append(rules,
			rule{"from " + name, cat(ip6Saddr(a), mayNot(mayClaim), drop())},
			rule{"advertisement of " + name, cat(icmp6(neighbourAdvertisement), ndTarget(a), mayNot(mayClaim), drop())},
			rule{"probe of " + name, cat(icmp6(neighbourSolicitation), ip6Saddr(zero6), ndTarget(a), mayNot(mayClaim), drop())},
			rule{"claimed: " + name, cat(ip6Saddr(a), gotoChain("nd"))})
	}
	rules = append(rules, ofServices6(func(s service) []rule {
		return []rule{
			{"from " + s.name, cat(ip6Saddr(s.addr), may(s.ports), drop())},
			{"advertisement of " + s.name, cat(icmp6(neighbourAdvertisement), ndTarget(s.addr), may(s.ports), drop())},
			{"probe of " + s.name, cat(icmp6(neighbourSolicitation), ip6Saddr(zero6), ndTarget(s.addr), may(s.ports), drop())},
		}
	})...)
	rules = append(rules,
		rule{"router advertisements", cat(icmp6(routerAdvertisement), mayNot(mayAdvertise), drop())},
		rule{"ICMPv6 redirects", cat(icmp6(icmp6Redirect), mayNot(mayAdvertise), drop())},
		rule{"MLD queries", cat(icmp6(mldQuery), mayNot(mayAdvertise), drop())},
		rule{"a guest as DHCPv6 server", cat(sport(udp, 547), mayNot(mayDHCP), drop())},
		rule{"to DHCPv6 clients", cat(dport(udp, 546), mayNot(mayDHCP), drop())},
		rule{"too many DHCPv6 requests", cat(tooManyRequests(dport(udp, 547)), drop())},
		rule{"too many router solicitations", cat(tooManyRequests(icmp6(routerSolicitation)), drop())},
		rule{"DHCPv6 that the node answers: mark, and off the wire", cat(may(ownDHCP6), linkLocal(), dport(udp, 547), markAndTake(), accept())},
		rule{"DHCPv6: mark", cat(linkLocal(), dport(udp, 547), mark(), accept())},
		rule{"solicitations before there is an address", cat(ip6Saddr(zero6), icmp6(routerSolicitation), gotoChain("nd"))},
		rule{"duplicate address detection", cat(ip6Saddr(zero6), icmp6(neighbourSolicitation), gotoChain("nd"))},
		rule{"group reports before there is an address", cat(ip6Saddr(zero6), icmp6Types(mldReport, mldDone), accept())},
		rule{"group reports before there is an address, MLDv2", cat(ip6Saddr(zero6), icmp6(mld2Report), accept())},
		rule{"another's address", cat(not(linkLocal()), notPair(ip6Source(), "addrs6"), jumpChain("any-address6"))})
	for _, a := range metadata6() {
		name := a.String()
		rules = append(rules,
			rule{"fragments to " + name, cat(ip6Daddr(a), ip6Fragment(), drop())},
			rule{"too many connections to metadata at " + name, cat(ip6Daddr(a), dport(tcp, 80), tooManyCalls(), drop())},
			rule{"metadata at " + name + ": mark, and off the wire", cat(ip6Daddr(a), dport(tcp, 80), markAndTake())})
	}
	rules = append(rules, ofServices6(func(s service) []rule { return s.taken(ip6Daddr(s.addr), ip6Fragment()) })...)
	return append(rules, rule{"the rest", gotoChain("nd")})
}

// ndRules check neighbour discovery: it must be plain ICMPv6 with at most one option, and a
// link-layer address in that option must be the port's own. A guest announces and probes only its own address, and those of
// the link. Solicitations of routers are marked, so that they reach the node also where it is a bridged network's.
func ndRules() []rule {
	solicitations := icmp6(routerSolicitation)
	neighbours := icmp6Types(neighbourSolicitation, neighbourAdvertisement)
	notPlain := not(network(6, unix.IPPROTO_ICMPV6))
	rules := []rule{
		{"neighbour discovery behind other headers", cat(icmp6Types(routerSolicitation, icmp6Redirect), notPlain, drop())},
		{"neighbour discovery with several options", cat(neighbours, not(ip6Length(optionAt)), not(ip6Length(optionAt+soleOptionSize)), drop())},
		{"neighbour discovery with another's MAC", cat(neighbours, ip6Length(optionAt+soleOptionSize),
			isLinkLayerOption(optionAt), ndOptionMAC(optionAt), drop())},
		{"router solicitation with several options", cat(solicitations, not(ip6Length(8)), not(ip6Length(8+soleOptionSize)), drop())},
		{"router solicitation with another's MAC", cat(solicitations, ip6Length(8+soleOptionSize), isLinkLayerOption(8), ndOptionMAC(8), drop())},
	}
	rules = append(rules,
		rule{"advertisement of " + seedbed.MetadataAddr6.String() + ", allowed", cat(icmp6(neighbourAdvertisement),
			ndTarget(seedbed.MetadataAddr6), may(mayClaim), accept())},
		rule{"probe of " + seedbed.MetadataAddr6.String() + ", allowed", cat(ip6Saddr(zero6), icmp6(neighbourSolicitation),
			ndTarget(seedbed.MetadataAddr6), may(mayClaim), accept())},
		rule{"advertisement of another's address", cat(icmp6(neighbourAdvertisement), not(ofLink()), notPair(ndTargetAny(), "addrs6"),
			jumpChain("any-target6"))},
		rule{"probe of another's address", cat(ip6Saddr(zero6), icmp6(neighbourSolicitation), not(ofLink()), notPair(ndTargetAny(), "addrs6"),
			jumpChain("any-target6"))},
		rule{"router solicitation: mark", cat(icmp6(routerSolicitation), mark())})
	rules = append(rules, ofServices6(func(s service) []rule {
		return []rule{
			{"solicitation of " + s.name + ": mark, and off the wire", cat(may(onWire), may(s.ports), icmp6(neighbourSolicitation),
				ndTarget(s.addr), markAndTake(), accept())},
			{"advertisement to " + s.name + ": mark, and off the wire", cat(may(onWire), may(s.ports), icmp6(neighbourAdvertisement),
				ip6Daddr(s.addr), markAndTake(), accept())},
		}
	})...)
	for _, a := range metadata6() {
		rules = append(rules,
			rule{"solicitation of " + a.String() + ": mark, and off the wire", cat(may(onWire), icmp6(neighbourSolicitation), ndTarget(a),
				markAndTake(), accept())},
			rule{"advertisement to " + a.String() + ": mark, and off the wire", cat(may(onWire), icmp6(neighbourAdvertisement), ip6Daddr(a),
				markAndTake(), accept())})
	}
	return append(rules, []rule{
		{"a whole header chain", cat(anyProtocol(), transportRange(0, 0, 255), accept())},
		{"a later fragment", cat(anyProtocol(), ip6LaterFragment(), accept())},
		{"a header chain that is cut short", drop()},
	}...)
}

// ip6LaterFragment matches a fragment that is not the first of its packet.
func ip6LaterFragment() exprs {
	return not(masked(exprs{
		&expr.Exthdr{DestRegister: 1, Type: unix.IPPROTO_FRAGMENT, Offset: 2, Len: 2, Op: expr.ExthdrOpIpv6},
		compare(expr.CmpOpEq, 0, 0),
	}, 0xff, 0xf8))
}

// anyProtocol matches packets in which the kernel found the end of the header chain. That end may
// be past the end of the packet.
func anyProtocol() exprs {
	return exprs{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{0}, ToData: []byte{255}}}
}
