package netcfg

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A forward takes what is sent to a port of the node, from outside, by a guest or by the node itself, to a guest. One at an
// address of the node takes precedence over one at all its addresses. What comes from outside keeps its source. A guest
// and the node get the gateway's, so that the answers come back to the node.
//
// A connection into a network with NAT ends with its forward: each packet must still go where one does.

// directionOriginal is IP_CT_DIR_ORIGINAL of linux/netfilter/nf_conntrack_tuple_common.h.
const directionOriginal = 0

// forwardSets returns the sets of forwards.
func forwardSets() []set {
	name, ip, proto, service := nftables.TypeIFName, nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService
	port, portAt := nftables.MustConcatSetType(proto, service), nftables.MustConcatSetType(ip, proto, service)
	// of returns set.fixed of a set to which every forward adds an element; only those at an address, or only others.
	of := func(at bool, value func(f forward, zone uint16) string) func(*plan, func(key, value string)) {
		return func(p *plan, add func(key, value string)) {
			zones := p.zones()
			for _, f := range p.forwards {
				switch key := padded([]byte{f.protocol}, be16(f.port)); {
				case f.floating():
				case at && f.addr != [4]byte{}:
					add(string(f.addr[:])+key, value(f, zones[f.bridge]))
				case !at && f.addr == [4]byte{}:
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
				if f.floating() {
					add(element(f, zones[f.bridge]))
				}
			}
		}
	}
	target := func(f forward, _ uint16) string { return padded(f.to[:], be16(f.toPort)) }
	zone := func(_ forward, zone uint16) string { return zoneValue(zone) }
	return []set{
		{name: "forwards", key: port, concat: true, value: nftables.MustConcatSetType(ip, service), fixed: of(false, target)},
		{name: "forwards-at", key: portAt, concat: true, value: nftables.MustConcatSetType(ip, service), fixed: of(true, target)},
		{name: "forward-zones", key: port, concat: true, value: nftables.TypeMark, fixed: of(false, zone)},
		{name: "forward-zones-at", key: portAt, concat: true, value: nftables.TypeMark, fixed: of(true, zone)},
		// Each forward as its packets to the guest show it.
		{name: "forwarded", key: nftables.MustConcatSetType(name, ip, proto, service), concat: true,
			fixed: func(p *plan, add func(key, value string)) {
				seen := map[string]bool{}
				for _, f := range p.forwards {
					if f.floating() {
						continue
					}
					key := string(ifname(f.bridge)) + padded(f.to[:], []byte{f.protocol}, be16(f.toPort))
					if !seen[key] {
						add(key, "")
					}
					seen[key] = true
				}
			}},
		{name: "floating", key: ip, value: ip, fixed: floating(func(f forward, _ uint16) (string, string) {
			return string(f.addr[:]), string(f.to[:])
		})},
		{name: "floating-addrs", key: ip, fixed: floating(func(f forward, _ uint16) (string, string) { return string(f.addr[:]), "" })},
		{name: "floating-zones", key: ip, value: nftables.TypeMark, fixed: floating(func(f forward, z uint16) (string, string) {
			return string(f.addr[:]), zoneValue(z)
		})},
		// The guests that have a floating address.
		{name: "floating-out", key: nftables.MustConcatSetType(name, ip), concat: true, value: ip,
			fixed: floating(func(f forward, _ uint16) (string, string) {
				return string(ifname(f.bridge)) + string(f.to[:]), string(f.addr[:])
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

func forwardPortAt() exprs {
	return exprs{load(expr.PayloadBaseNetworkHeader, reg, 16, 4), &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg + 1},
		load(expr.PayloadBaseTransportHeader, reg+2, 2, 2)}
}

// toThisHost matches packets to an address of the node by which other hosts reach it.
func toThisHost() exprs {
	return cat(ipv4(), not(network(16, 127)), not(network(16, 169, 254)), addressType(expr.Fib{FlagDADDR: true}, unix.RTN_LOCAL))
}

// forwardChain returns the chain that sends the first packet of a connection to a guest.
func forwardChain() chain {
	to := exprs{&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: reg, RegProtoMin: reg + 1, Specified: true}}
	target := func(set string) exprs {
		return exprs{&expr.Lookup{SourceRegister: reg, SetName: set, DestRegister: reg, IsDestRegSet: true}}
	}
	return chain{name: "forwards", rules: []rule{
		{"a forward at an address", cat(toThisHost(), forwardPortAt(), target("forwards-at"), to)},
		{"a floating address", cat(toThisHost(), floatingTarget("floating"),
			exprs{&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1}})},
		{"a forward", cat(toThisHost(), forwardPort(), target("forwards"), to)},
	}}
}

// floatingTarget looks up the address that a packet is sent to, and loads what the map has.
func floatingTarget(set string) exprs {
	return exprs{load(expr.PayloadBaseNetworkHeader, 1, 16, 4),
		&expr.Lookup{SourceRegister: 1, SetName: set, DestRegister: 1, IsDestRegSet: true}}
}

// toForwards send what a guest of a network that reaches outside sends to the node, but not to its own gateway, and what
// comes from outside, through the chain of forwards.
func toForwards() []rule {
	const iif = expr.MetaKeyIIFNAME
	return []rule{
		{"to the gateway", cat(ipv4(), in(iif, "bridges"), pair(ipTarget(), "prefixes"), accept())},
		{"of a network that does not reach outside", cat(in(iif, "bridges"), notIn(iif, "outside"), accept())},
		{"to a forward", gotoChain("forwards")},
	}
}

// forwardZones track connections to a forward in the zone of the network that it goes to, where the answers are looked up.
func forwardZones(key expr.MetaKey) []rule {
	from := exprs{}
	if key == expr.MetaKeyIIFNAME {
		from = cat(ipv4(), in(key, "outside"), notPair(ipTarget(), "prefixes"))
	}
	set := cat(exprs{&expr.Ct{Key: expr.CtKeyZONE, Register: 1, SourceRegister: true}}, accept())
	zone := func(set string) exprs {
		return exprs{&expr.Lookup{SourceRegister: reg, SetName: set, DestRegister: 1, IsDestRegSet: true}}
	}
	return []rule{
		{"the zone of a forward at an address", cat(from, toThisHost(), forwardPortAt(), zone("forward-zones-at"), set)},
		{"the zone of a floating address", cat(from, toThisHost(), floatingTarget("floating-zones"), set)},
		{"the zone of a forward", cat(from, toThisHost(), forwardPort(), zone("forward-zones"), set)},
	}
}

// forwardedRules let connections of forwards pass to a guest, and block those into a network with NAT whose forward is gone.
// Errors about a connection, such as that a packet is too large, are no packets of it. Into a routed network, other programs
// of the node may have redirected connections.
func forwardedRules() []rule {
	const iif, oif = expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME
	ours := cat(ipv4(), ctStatus(statusDNAT), in(oif, "outside"))
	still := exprs{&expr.Meta{Key: oif, Register: 1}, load(expr.PayloadBaseNetworkHeader, reg+4, 16, 4),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg + 5},
		load(expr.PayloadBaseTransportHeader, reg+6, 2, 2),
		&expr.Lookup{SourceRegister: 1, SetName: "forwarded"}}
	floating := exprs{&expr.Meta{Key: oif, Register: 1}, ipTarget(),
		&expr.Lookup{SourceRegister: 1, SetName: "floating-out", DestRegister: 3, IsDestRegSet: true}}
	original := exprs{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, compare(expr.CmpOpEq, directionOriginal)}
	ofGuest := cat(in(iif, "outside"), pair(ipSource(), "prefixes"))
	return []rule{
		{"of a floating address, from outside", cat(ours, notIn(iif, "bridges"), floating, accept())},
		{"of a floating address, from a guest", cat(ours, ofGuest, floating, accept())},
		{"of a forward, from outside", cat(ours, notIn(iif, "bridges"), still, accept())},
		{"of a forward, from a guest", cat(ours, ofGuest, still, accept())},
		{"answers of a forward, to a guest", cat(ours, ofGuest, not(original), accept())},
		{"of no forward any more", cat(ours, in(oif, "nat"), original, ctState(expr.CtStateBitNEW|expr.CtStateBitESTABLISHED), drop())},
	}
}

// forwardedSNAT gives what a guest or the node sends to a forward the address of the gateway.
func forwardedSNAT() []rule {
	ours := cat(ipv4(), ctStatus(statusDNAT), in(expr.MetaKeyOIFNAME, "outside"))
	masquerade := exprs{&expr.Masq{}}
	sameNetwork := exprs{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, ipSource(), &expr.Lookup{SourceRegister: 1, SetName: "prefixes"}}
	return []rule{
		{"a guest's connection to a forward", cat(ours, in(expr.MetaKeyIIFNAME, "bridges"), masquerade)},
		{"a neighbour's connection to a forward, with br_netfilter", cat(ours, sameNetwork, masquerade)},
		{"the node's connection to a forward", cat(ours, addressType(expr.Fib{FlagSADDR: true}, unix.RTN_LOCAL), masquerade)},
	}
}
