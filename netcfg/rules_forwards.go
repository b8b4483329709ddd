package netcfg

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

// A forward takes what is sent to a port of the node, from outside, by a guest or by the node itself, to a guest. One at an
// address of the node takes precedence over one at all its addresses. What comes from outside keeps its source. A guest
// and the node get the gateway's, so that the answers come back to the node.
//
// A connection into a network with NAT ends with its forward: each packet must still go where one does.

// directionOriginal is IP_CT_DIR_ORIGINAL of linux/netfilter/nf_conntrack_tuple_common.h.
const directionOriginal = 0

// version is a version of IP in the rules of forwards.
type version struct {
	// over is the end of the names of its rules, and end that of its sets.
	over, end string
	match     func() exprs
	protocol  uint32 // unix.NFPROTO_…
	addr      nftables.SetDatatype
	// sourceAt and targetAt are where a packet has its addresses.
	sourceAt, targetAt uint32
	// unreached match packets to addresses of a node by which other hosts do not reach it.
	unreached []exprs
}

var versions = []version{
	{"", "", ipv4, unix.NFPROTO_IPV4, nftables.TypeIPAddr, 12, 16, []exprs{network(16, 127), network(16, 169, 254)}},
	{" over IPv6", "6", ipv6, unix.NFPROTO_IPV6, nftables.TypeIP6Addr, 8, 24, []exprs{
		ip6Daddr(netip.IPv6Loopback()), masked(network(24, 0xfe, 0x80), 0xff, 0xc0), network(24, seedbed.MetadataAddr6.AsSlice()[:8]...)}},
}

// of returns the name of a set of the version.
func (v version) of(set string) string { return set + v.end }

// holds reports whether an address is of the version.
func (v version) holds(a netip.Addr) bool { return a.BitLen() == int(8*v.addr.Bytes) }

// source and target load the addresses of a packet behind the name of an interface.
func (v version) source() *expr.Payload {
	return load(expr.PayloadBaseNetworkHeader, 2, v.sourceAt, v.addr.Bytes)
}
func (v version) target() *expr.Payload {
	return load(expr.PayloadBaseNetworkHeader, 2, v.targetAt, v.addr.Bytes)
}

// registers is how many registers of four bytes an address fills.
func (v version) registers() uint32 { return v.addr.Bytes / 4 }

// forwardSets returns the sets of forwards.
func forwardSets() (all []set) {
	for _, v := range versions {
		all = append(all, v.forwardSets()...)
	}
	return append(all, set{name: "gateways6", key: nftables.TypeIFName, value: nftables.TypeIP6Addr,
		fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				if gateway := n.Gateway6(); gateway.IsValid() && n.Kind.Outside() {
					add(string(ifname(n.Bridge)), string(gateway.AsSlice()))
				}
			}
		}})
}

func (v version) forwardSets() []set {
	name, ip, proto, service := nftables.TypeIFName, v.addr, nftables.TypeInetProto, nftables.TypeInetService
	port, portAt := nftables.MustConcatSetType(proto, service), nftables.MustConcatSetType(ip, proto, service)
	// of returns set.fixed of a set to which every forward adds an element; only those at an address, or only others.
	of := func(at bool, value func(f forward, zone uint16) string) func(*plan, func(key, value string)) {
		return func(p *plan, add func(key, value string)) {
			zones := p.zones()
			for _, f := range p.forwards {
				switch key := padded([]byte{f.protocol}, be16(f.port)); {
				case f.floating() || !v.holds(f.addr):
				case at && !f.addr.IsUnspecified():
					add(string(f.addr.AsSlice())+key, value(f, zones[f.bridge]))
				case !at && f.addr.IsUnspecified():
					add(key, value(f, zones[f.bridge]))
				}
			}
		}
	}
	// floating returns set.fixed of a set to which every floating address adds an element.
	floating := func(element func(f forward, zone uint16) (key, value string)) func(*plan, func(key, value string)) {
		return func(p *plan, add func(key, value string)) {
			zones := p.zones()
			for _, f := range p.forwards {
				if f.floating() && v.holds(f.addr) {
					add(element(f, zones[f.bridge]))
				}
			}
		}
	}
	target := func(f forward, _ uint16) string { return padded(f.to.AsSlice(), be16(f.toPort)) }
	zone := func(_ forward, zone uint16) string { return zoneValue(zone) }
	return []set{
		{name: v.of("forwards"), key: port, concat: true, value: nftables.MustConcatSetType(ip, service), fixed: of(false, target)},
		{name: v.of("forwards-at"), key: portAt, concat: true, value: nftables.MustConcatSetType(ip, service), fixed: of(true, target)},
		{name: v.of("forward-zones"), key: port, concat: true, value: nftables.TypeMark, fixed: of(false, zone)},
		{name: v.of("forward-zones-at"), key: portAt, concat: true, value: nftables.TypeMark, fixed: of(true, zone)},
		// Each forward as its packets to the guest show it.
		{name: v.of("forwarded"), key: nftables.MustConcatSetType(name, ip, proto, service), concat: true,
			fixed: func(p *plan, add func(key, value string)) {
				seen := map[string]bool{}
				for _, f := range p.forwards {
					if f.floating() || !v.holds(f.to) {
						continue
					}
					key := string(ifname(f.bridge)) + padded(f.to.AsSlice(), []byte{f.protocol}, be16(f.toPort))
					if !seen[key] {
						add(key, "")
					}
					seen[key] = true
				}
			}},
		{name: v.of("floating"), key: ip, value: ip, fixed: floating(func(f forward, _ uint16) (string, string) {
			return string(f.addr.AsSlice()), string(f.to.AsSlice())
		})},
		{name: v.of("floating-addrs"), key: ip, fixed: floating(func(f forward, _ uint16) (string, string) {
			return string(f.addr.AsSlice()), ""
		})},
		{name: v.of("floating-zones"), key: ip, value: nftables.TypeMark, fixed: floating(func(f forward, z uint16) (string, string) {
			return string(f.addr.AsSlice()), zoneValue(z)
		})},
		// The guests that have a floating address.
		{name: v.of("floating-out"), key: nftables.MustConcatSetType(name, ip), concat: true, value: ip,
			fixed: floating(func(f forward, _ uint16) (string, string) {
				return string(ifname(f.bridge)) + string(f.to.AsSlice()), string(f.addr.AsSlice())
			})},
	}
}

// padded joins parts of a key or value, each of which fills whole registers of four bytes.
func padded(parts ...[]byte) string {
	var b []byte
	for _, part := range parts {
		b = append(b, part...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return string(b)
}

// forwardPort and forwardPortAt load the keys of sets of forwards: what a packet is sent to.
func forwardPort() exprs {
	return exprs{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg}, load(expr.PayloadBaseTransportHeader, reg+1, 2, 2)}
}

func (v version) forwardPortAt() exprs {
	at := reg + v.registers()
	return exprs{load(expr.PayloadBaseNetworkHeader, reg, v.targetAt, v.addr.Bytes), &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: at},
		load(expr.PayloadBaseTransportHeader, at+1, 2, 2)}
}

// toThisHost matches packets to an address of the node by which other hosts reach it.
func (v version) toThisHost() exprs {
	all := v.match()
	for _, other := range v.unreached {
		all = append(all, not(other)...)
	}
	return append(all, addressType(expr.Fib{FlagDADDR: true}, unix.RTN_LOCAL)...)
}

// forwardChain returns the chain that sends the first packet of a connection to a guest.
func forwardChain() chain {
	c := chain{name: "forwards"}
	for _, v := range versions {
		to := exprs{&expr.NAT{Type: expr.NATTypeDestNAT, Family: v.protocol, RegAddrMin: reg, RegProtoMin: reg + v.registers(), Specified: true}}
		target := func(set string) exprs {
			return exprs{&expr.Lookup{SourceRegister: reg, SetName: v.of(set), DestRegister: reg, IsDestRegSet: true}}
		}
		c.rules = append(c.rules,
			rule{"a forward at an address" + v.over, cat(v.toThisHost(), v.forwardPortAt(), target("forwards-at"), to)},
			rule{"a floating address" + v.over, cat(v.toThisHost(), v.floatingTarget("floating"),
				exprs{&expr.NAT{Type: expr.NATTypeDestNAT, Family: v.protocol, RegAddrMin: 1}})},
			rule{"a forward" + v.over, cat(v.toThisHost(), forwardPort(), target("forwards"), to)})
	}
	return c
}

// floatingTarget looks up the address that a packet is sent to, and loads what the map has.
func (v version) floatingTarget(set string) exprs {
	return exprs{load(expr.PayloadBaseNetworkHeader, 1, v.targetAt, v.addr.Bytes),
		&expr.Lookup{SourceRegister: 1, SetName: v.of(set), DestRegister: 1, IsDestRegSet: true}}
}

// toForwards send what a guest of a network that reaches outside sends to the node, but not to its own gateway, and what
// comes from outside, through the chain of forwards.
func toForwards() (rules []rule) {
	const iif = expr.MetaKeyIIFNAME
	for _, v := range versions {
		rules = append(rules, rule{"to the gateway" + v.over, cat(v.match(), in(iif, "bridges"), pair(v.target(), v.of("prefixes")), accept())})
	}
	return append(rules,
		rule{"of a network that does not reach outside", cat(in(iif, "bridges"), notIn(iif, "outside"), accept())},
		rule{"to a forward", gotoChain("forwards")})
}

// forwardZones track connections to a forward in the zone of the network that it goes to, where the answers are looked up.
func forwardZones(key expr.MetaKey) (rules []rule) {
	set := cat(exprs{&expr.Ct{Key: expr.CtKeyZONE, Register: 1, SourceRegister: true}}, accept())
	for _, v := range versions {
		from := exprs{}
		if key == expr.MetaKeyIIFNAME {
			from = cat(v.match(), in(key, "outside"), notPair(v.target(), v.of("prefixes")))
		}
		zone := func(set string) exprs {
			return exprs{&expr.Lookup{SourceRegister: reg, SetName: v.of(set), DestRegister: 1, IsDestRegSet: true}}
		}
		rules = append(rules,
			rule{"the zone of a forward at an address" + v.over, cat(from, v.toThisHost(), v.forwardPortAt(), zone("forward-zones-at"), set)},
			rule{"the zone of a floating address" + v.over, cat(from, v.toThisHost(), v.floatingTarget("floating-zones"), set)},
			rule{"the zone of a forward" + v.over, cat(from, v.toThisHost(), forwardPort(), zone("forward-zones"), set)})
	}
	return rules
}

// forwardedRules let connections of forwards pass to a guest, and block those into a network with NAT whose forward is gone.
// Errors about a connection, such as that a packet is too large, are no packets of it. Into a routed network, other programs
// of the node may have redirected connections.
func forwardedRules() (rules []rule) {
	for _, v := range versions {
		rules = append(rules, v.forwardedRules()...)
	}
	return rules
}

func (v version) forwardedRules() []rule {
	const iif, oif = expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME
	ours := cat(v.match(), ctStatus(statusDNAT), in(oif, "outside"))
	at := reg + 4 + v.registers()
	still := exprs{&expr.Meta{Key: oif, Register: 1}, load(expr.PayloadBaseNetworkHeader, reg+4, v.targetAt, v.addr.Bytes),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: at}, load(expr.PayloadBaseTransportHeader, at+1, 2, 2),
		&expr.Lookup{SourceRegister: 1, SetName: v.of("forwarded")}}
	floating := exprs{&expr.Meta{Key: oif, Register: 1}, v.target(),
		&expr.Lookup{SourceRegister: 1, SetName: v.of("floating-out"), DestRegister: 3, IsDestRegSet: true}}
	original := exprs{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, compare(expr.CmpOpEq, directionOriginal)}
	ofGuest := cat(in(iif, "outside"), pair(v.source(), v.of("prefixes")))
	return []rule{
		{"of a floating address, from outside" + v.over, cat(ours, notIn(iif, "bridges"), floating, accept())},
		{"of a floating address, from a guest" + v.over, cat(ours, ofGuest, floating, accept())},
		{"of a forward, from outside" + v.over, cat(ours, notIn(iif, "bridges"), still, accept())},
		{"of a forward, from a guest" + v.over, cat(ours, ofGuest, still, accept())},
		{"answers of a forward, to a guest" + v.over, cat(ours, ofGuest, not(original), accept())},
		{"of no forward any more" + v.over, cat(ours, in(oif, "nat"), original,
			ctState(expr.CtStateBitNEW|expr.CtStateBitESTABLISHED), drop())},
	}
}

// forwardedSNAT gives what a guest or the node sends to a forward the address of the gateway. Over IPv6, the kernel itself would
// choose another one of the node, since it avoids that.
func forwardedSNAT() (rules []rule) {
	oif := &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}
	for _, v := range versions {
		gateway := exprs{&expr.Masq{}}
		if v.protocol == unix.NFPROTO_IPV6 {
			gateway = exprs{oif, &expr.Lookup{SourceRegister: 1, SetName: "gateways6", DestRegister: 1, IsDestRegSet: true},
				&expr.NAT{Type: expr.NATTypeSourceNAT, Family: v.protocol, RegAddrMin: 1}}
		}
		ours := cat(v.match(), ctStatus(statusDNAT), in(expr.MetaKeyOIFNAME, "outside"))
		sameNetwork := exprs{oif, v.source(), &expr.Lookup{SourceRegister: 1, SetName: v.of("prefixes")}}
		rules = append(rules,
			rule{"a guest's connection to a forward" + v.over, cat(ours, in(expr.MetaKeyIIFNAME, "bridges"), gateway)},
			rule{"a neighbour's connection to a forward, with br_netfilter" + v.over, cat(ours, sameNetwork, gateway)},
			rule{"the node's connection to a forward" + v.over, cat(ours, addressType(expr.Fib{FlagSADDR: true}, unix.RTN_LOCAL), gateway)})
	}
	return rules
}
