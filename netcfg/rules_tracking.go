package netcfg

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

// beforeDefrag is NF_IP_PRI_RAW_BEFORE_DEFRAG of linux/netfilter_ipv4.h. Fragments are put together
// per zone.
const beforeDefrag nftables.ChainPriority = -450

// trackingRules decide in which part of the connection table a packet is looked up: of what comes
// from a bridge (expr.MetaKeyIIFNAME), or what the node sends to one (expr.MetaKeyOIFNAME).
//
// Each bridge has a zone of its own for the connections between its guests and the node. Networks
// may have equal addresses, and without zones a guest could send packets of another's connection.
// The connections that leave a network stay outside the zones, since the answers to them do not come from
// the bridge. Only one of overlapping networks reaches outside, and forwardRules keep other guests out of
// them.
//
// Connections to the metadata service at port 80 and to what else the node offers are not tracked at all. NAT to another port needs
// the table. Fragments of guests are counted first.
func trackingRules(p *plan, key expr.MetaKey) []rule {
	var rules []rule
	if p.metadataPort == 80 {
		rules = untracked(key)
	}
	rules = append(append(rules, untrackedServices(key)...), untrackedOverlays(p, key)...)
	if key == expr.MetaKeyIIFNAME {
		rules = append(append(rules, toFragments()...), rule{"of a network with peers", cat(in(key, "with-peers"), jumpChain("peers"))})
		rules = append(rules, rule{"out of a network",
			cat(ipv4(), in(key, "outside"), notPair(ipTarget(), "prefixes"), toAnotherHost(), accept())},
			rule{"out of a network over IPv6",
				cat(ipv6(), in(key, "outside"), notPair(ip6Target(), "prefixes6"), toAnotherHost(), accept())})
	}
	rules = append(rules, forwardZones(key)...)
	return append(rules, rule{"the zone of a network", exprs{&expr.Meta{Key: key, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: "zones", DestRegister: 1, IsDestRegSet: true},
		&expr.Ct{Key: expr.CtKeyZONE, Register: 1, SourceRegister: true}}})
}

// untracked keeps connections to the metadata service out of the connection table, which a guest
// could fill.
func untracked(key expr.MetaKey) []rule {
	match := func(addr func(netip.Addr) exprs, port func(byte, uint16) exprs, family exprs, a netip.Addr) rule {
		return rule{"metadata at " + a.String(),
			cat(in(key, "bridges"), family, addr(a), port(unix.IPPROTO_TCP, 80), exprs{&expr.Notrack{}}, accept())}
	}
	v4, v6, port := ipDaddr, ip6Daddr, dport
	if key == expr.MetaKeyOIFNAME {
		v4, v6, port = ipSaddr, ip6Saddr, sport
	}
	rules := []rule{match(v4, port, ipv4(), seedbed.MetadataAddr)}
	for _, a := range metadata6() {
		rules = append(rules, match(v6, port, ipv6(), a))
	}
	return rules
}

// untrackedServices keeps the queries of guests to the node's services out of the connection table: each query is one more
// connection.
func untrackedServices(key expr.MetaKey) []rule {
	addr, addr6, port := ipTarget(), ip6Target(), dport
	if key == expr.MetaKeyOIFNAME {
		addr, addr6, port = ipSource(), ip6Source(), sport
	}
	of := func(version exprs, addr *expr.Payload, set string) func(s service) []rule {
		return func(s service) (rules []rule) {
			for _, p := range s.protocols {
				rules = append(rules, rule{s.name, cat(version, port(p, s.port), pairOf(key, addr, set), exprs{&expr.Notrack{}}, accept())})
			}
			return rules
		}
	}
	return append(ofServices(of(ipv4(), addr, "services")), ofServices6(of(ipv6(), addr6, "services6"))...)
}

// zones returns the zone of each network, by its bridge, which is never 0. It depends on the name of the bridge, so
// that connections outlive a change of the other networks; only of two names with the same hash does
// one give way.
func (p *plan) zones() map[string]uint16 {
	taken := map[uint16]bool{0: true}
	out := map[string]uint16{}
	for _, n := range p.networks {
		h := fnv.New32a()
		h.Write([]byte(n.Bridge))
		sum := h.Sum32()
		zone := uint16(sum>>16) ^ uint16(sum)
		for taken[zone] {
			zone++
		}
		taken[zone] = true
		out[n.Bridge] = zone
	}
	return out
}

// zoneValue returns a zone as the value of a map: a zone has two bytes, and a mark, the least type of values, four.
func zoneValue(zone uint16) string {
	return string(binary.NativeEndian.AppendUint16(nil, zone)) + "\x00\x00"
}

// toAnotherHost matches packets whose destination is neither the node nor a group.
func toAnotherHost() exprs {
	return addressType(expr.Fib{FlagDADDR: true}, unix.RTN_UNICAST)
}

// addressType matches packets whose address, which of says, is of a type of the node's routes (RTN_…).
func addressType(of expr.Fib, typ uint32) exprs {
	of.Register, of.ResultADDRTYPE = 1, true
	return exprs{&of, compare(expr.CmpOpEq, binary.NativeEndian.AppendUint32(nil, typ)...)}
}
