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

var zeroAddr = netip.IPv4Unspecified()

func markValue(m uint32) []byte { return binary.NativeEndian.AppendUint32(nil, m) }

// inetTable returns the table that protects the node from its guests and lets their traffic out. It
// affects only packets from or to a managed bridge. As in bridgeTable, the rules do not depend on the
// networks: a packet passes as few of them with a thousand networks as with one, and a change of one
// network is a change of elements.
func inetTable(p *plan) *table {
	filter, nat := nftables.ChainTypeFilter, nftables.ChainTypeNAT
	return &table{
		family: nftables.TableFamilyINet,
		sets: append([]set{
			ports(),
			connections(),
			vniSet(),
		}, slices.Concat(networkSets(), unknownSets(), fragmentSets(), forwardSets(), nodeSets(), ownSets())...),
		chains: []chain{
			{name: "fragments", rules: fragmentRules(p)},
			{name: "peers", rules: untrackedPeers()},
			{name: "tracking-in", typ: filter, hook: nftables.ChainHookPrerouting, prio: beforeDefrag, rules: trackingRules(p, expr.MetaKeyIIFNAME)},
			{name: "tracking-out", typ: filter, hook: nftables.ChainHookOutput, prio: beforeDefrag, rules: trackingRules(p, expr.MetaKeyOIFNAME)},
			{name: "input", typ: filter, hook: nftables.ChainHookInput, prio: 0, rules: inputRules(p)},
			{name: "forward", typ: filter, hook: nftables.ChainHookForward, prio: 0, rules: forwardRules(p)},
			forwardChain(),
			{name: "dnat", typ: nat, hook: nftables.ChainHookPrerouting, prio: -100, rules: append(dnatRules(p), toForwards()...)},
			{name: "dnat-out", typ: nat, hook: nftables.ChainHookOutput, prio: -100, rules: []rule{{"to a forward", gotoChain("forwards")}}},
			{name: "snat", typ: nat, hook: nftables.ChainHookPostrouting, prio: 100,
				rules: slices.Concat(forwardedSNAT(), p.besideTunnels(), snatRules())},
		},
	}
}

// ports returns the set of the guests' ports.
func ports() set {
	return set{name: "ports", key: nftables.TypeIFName, of: func(_ *plan, t *port) (string, string, bool) {
		return string(t.tap[:]), "", true
	}}
}

const known = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED

// statusDNAT is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
const statusDNAT = 1 << 5

// inputRules let guests reach ping, DHCP and metadata on the node, those of their DNS servers that are addresses of the
// node, and its time server where the network has it. Over IPv6 they reach the same, and neighbour
// discovery with the node as a router. They ask the resolver and the time server from their addresses of the network's prefix, by which
// the resolver knows their names, and not from link-local ones, of which each has any number. A port outside its bridge does not
// reach anything.
func inputRules(p *plan) []rule {
	const udp, tcp = unix.IPPROTO_UDP, unix.IPPROTO_TCP
	marked := exprs{}
	if p.metadataPort != 80 {
		marked = ctStatus(statusDNAT) // only what was marked as sent to port 80
	}
	rules := []rule{
		{"a guest's port without a bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
		{"past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
		{"from a bridged network", cat(fromWire(), drop())},
	}
	rules = append(append(rules, fromStrangers(p)...), []rule{
		{"not from a managed bridge", cat(notIn(expr.MetaKeyIIFNAME, "bridges"), accept())},
		{"answers", cat(ctState(known), accept())},
		{"too many connections", cat(tooManyConnections(p), drop())},
		{"neighbour discovery", cat(ipv6(), icmp6Types(neighbourSolicitation, neighbourAdvertisement), accept())},
		{"router solicitations", cat(ipv6(), icmp6(routerSolicitation), accept())},
	}...)
	for _, a := range metadata6() {
		to := cat(ip6Daddr(a), dport(tcp, p.metadataPort), marked)
		rules = append(rules,
			rule{"metadata at " + a.String() + ", from the link", cat(ipv6(), linkLocal(), to, accept())},
			rule{"metadata at " + a.String() + ", from the prefix", cat(ipv6(), to, pair(ip6Source(), "prefixes6"), accept())})
	}
	return append(rules,
		rule{"ping over IPv6", cat(ipv6(), icmp6(128), accept())},
		rule{"DHCPv6", cat(ipv6(), linkLocal(), dport(udp, 547), accept())},
		rule{"DNS over IPv6", cat(ipv6(), dport(udp, 53), pair(ip6Target(), "dns6"), pair(ip6Source(), "prefixes6"), accept())},
		rule{"DNS over TCP and IPv6", cat(ipv6(), dport(tcp, 53), pair(ip6Target(), "dns6"), pair(ip6Source(), "prefixes6"), accept())},
		rule{"NTP over IPv6", cat(ipv6(), dport(udp, 123), pair(ip6Target(), "clocks6"), pair(ip6Source(), "prefixes6"), accept())},
		rule{"IPv6 to the host", cat(not(ipv4()), drop())},
		rule{"ping", cat(icmp(8), accept())},
		rule{"DHCP", cat(dport(udp, 67), accept())},
		rule{"metadata, from the link", cat(ipv4(), ipDaddr(seedbed.MetadataAddr), dport(tcp, p.metadataPort), marked,
			pair(ipSource(), "prefixes"), accept())},
		rule{"DNS", cat(ipv4(), dport(udp, 53), pair(ipTarget(), "dns"), accept())},
		rule{"DNS over TCP", cat(ipv4(), dport(tcp, 53), pair(ipTarget(), "dns"), accept())},
		rule{"NTP", cat(ipv4(), dport(udp, 123), pair(ipTarget(), "clocks"), pair(ipSource(), "prefixes"), accept())},
		rule{"the host is closed to guests", drop()})
}

// forwardRules let the guests of networks with NAT and of routed ones reach other networks, and block
// unsolicited traffic to all but routed ones. No guest reaches another managed bridge, unless both networks are peers.
// Whatever conntrack says of a guest's packet, it leaves only from such a network and with an address of it: it may look
// like one of another network's connection. The rules see packets between two guests of one bridge only with br_netfilter.
//
// What is for a floating address has the guest's here. Until the kernel has put the address on the uplink, which takes it a moment over
// IPv6, a packet would be one of a connection that is not translated, and all that follow.
func forwardRules(p *plan) []rule {
	within := exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 2},
		&expr.Lookup{SourceRegister: 1, SetName: "within"}}
	out, into := notIn(expr.MetaKeyOIFNAME, "bridges"), notIn(expr.MetaKeyIIFNAME, "bridges")
	rules := append(p.pastTunnels(), []rule{
		{"a guest's port without a bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
		{"past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
		{"to a floating address, which the node does not have yet", cat(ipv4(), addrIn(16, 4, "floating-addrs"), drop())},
		{"to a floating address over IPv6, which the node does not have yet", cat(ipv6(), addrIn(24, 16, "floating-addrs6"), drop())},
		{"not ours", cat(notIn(expr.MetaKeyIIFNAME, "bridges"), notIn(expr.MetaKeyOIFNAME, "bridges"), accept())},
		{"too many connections", cat(tooManyConnections(p), drop())},
	}...)
	rules = append(append(rules, forwardedRules()...), guestsToNodes()...)
	return append(append(append(rules, unknownGuests()...), toPeers()...), []rule{
		{"from outside with an address of the network", cat(into, ipv4(), pairOf(expr.MetaKeyOIFNAME, ipSource(), "prefixes"), drop())},
		{"from outside with an IPv6 address of the network", cat(into, ipv6(), pairOf(expr.MetaKeyOIFNAME, ip6Source(), "prefixes6"), drop())},
		{"from outside with an address of a peer", cat(into, ipv4(), pairOf(expr.MetaKeyOIFNAME, ipSource(), peered4), drop())},
		{"from outside with an IPv6 address of a peer", cat(into, ipv6(), pairOf(expr.MetaKeyOIFNAME, ip6Source(), peered6), drop())},
		{"within a network", cat(within, accept())},
		{"what conntrack cannot place", cat(ctState(expr.CtStateBitINVALID), drop())},
		{"out of a network", cat(ipv4(), in(expr.MetaKeyIIFNAME, "outside"), out, pair(ipSource(), "prefixes"), accept())},
		{"out of a network over IPv6", cat(ipv6(), in(expr.MetaKeyIIFNAME, "outside"), out, pair(ip6Source(), "prefixes6"), accept())},
		{"answers to a network with NAT", cat(in(expr.MetaKeyOIFNAME, "nat"), into, ctState(known), accept())},
		{"into a routed network", cat(ipv4(), in(expr.MetaKeyOIFNAME, "routed"), into, accept())},
		{"into a routed network over IPv6", cat(ipv6(), in(expr.MetaKeyOIFNAME, "routed"), into,
			pairOf(expr.MetaKeyOIFNAME, ip6Target(), "prefixes6"), accept())},
		{"everything else", drop()},
	}...)
}

// dnatRules redirect guests' metadata requests to the port of the server.
func dnatRules(p *plan) []rule {
	if p.metadataPort == 80 {
		return nil
	}
	to := func(a netip.Addr, family uint32) exprs {
		return exprs{
			&expr.Immediate{Register: 1, Data: a.AsSlice()},
			&expr.Immediate{Register: 2, Data: be16(p.metadataPort)},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1, RegProtoMin: 2, Specified: true},
		}
	}
	bridges := in(expr.MetaKeyIIFNAME, "bridges")
	rules := []rule{{"metadata on another port", cat(bridges, ipv4(), ipDaddr(seedbed.MetadataAddr), dport(unix.IPPROTO_TCP, 80),
		to(seedbed.MetadataAddr, unix.NFPROTO_IPV4))}}
	for _, a := range metadata6() {
		rules = append(rules, rule{"metadata at " + a.String() + " on another port",
			cat(bridges, ipv6(), ip6Daddr(a), dport(unix.IPPROTO_TCP, 80), to(a, unix.NFPROTO_IPV6))})
	}
	return rules
}

// snatRules give what leaves a network with NAT the address of the node. The kernel says in postrouting by which
// bridge a packet came, since Linux 5.7.
func snatRules() []rule {
	leaves := func(iif string) exprs {
		return cat(in(expr.MetaKeyIIFNAME, iif), notIn(expr.MetaKeyOIFNAME, "bridges"))
	}
	var rules []rule
	for _, v := range versions {
		rules = append(rules, rule{"of a floating address" + v.over, cat(v.match(), leaves("outside"), exprs{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, v.source(),
			&expr.Lookup{SourceRegister: 1, SetName: v.of("floating-out"), DestRegister: 1, IsDestRegSet: true},
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: v.protocol, RegAddrMin: 1},
		})})
	}
	for _, v := range versions {
		rules = append(rules, rule{"NAT" + v.over, cat(v.match(), leaves("nat"), pair(v.source(), v.of("prefixes")), exprs{&expr.Masq{}})})
	}
	return rules
}

// neighbourBits is how many bits of host addresses a prefix may have before its addresses take a large part of the neighbour table
// of a kernel (gc_thresh3, 1024 by default).
const neighbourBits = 8

// crowded reports whether the node forwards to known guests alone into a prefix of a network: the node would ask for each address
// that somebody sends to, and soon have no room for the neighbours that it needs. Where guests may use any address, it
// does not know them.
func crowded(n seedbed.Network, p netip.Prefix) bool {
	return p.IsValid() && p.Addr().BitLen()-p.Bits() > neighbourBits && !n.Allow.Addresses
}

// unknownSets returns the sets of the known guests of crowded networks, by bridge and address, and what tells a packet that the
// node forwards.
func unknownSets() []set {
	name := nftables.TypeIFName
	key := func(n seedbed.Network, a netip.Addr) (string, string, bool) {
		return string(ifname(n.Bridge)) + string(a.AsSlice()), "", a.IsValid()
	}
	first := func(p *plan, network int32, a netip.Addr) (string, string, bool) {
		n := p.networks[network]
		if !crowded(n, n.Prefix) {
			return "", "", false
		}
		return key(n, a)
	}
	return []set{
		bridgesOf("crowded", func(n seedbed.Network) bool { return crowded(n, n.Prefix) }),
		bridgesOf("crowded6", func(n seedbed.Network) bool { return crowded(n, n.Prefix6) }),
		{name: "bridge-macs", key: nftables.MustConcatSetType(name, nftables.TypeEtherAddr), concat: true,
			fixed: func(p *plan, add func(key, value string)) {
				for _, n := range p.networks {
					add(string(ifname(n.Bridge))+string(n.MAC[:])+"\x00\x00", "")
				}
			}},
		{name: "guests", key: nftables.MustConcatSetType(name, nftables.TypeIPAddr), concat: true, shared: true,
			of: func(p *plan, t *port) (string, string, bool) {
				if t.addr == ([4]byte{}) {
					return "", "", false
				}
				return first(p, t.network, netip.AddrFrom4(t.addr))
			},
			secondary: func(p *plan, s *secondary) (string, string, bool) {
				if !s.addr.Is4() {
					return "", "", false
				}
				return first(p, s.network, s.addr)
			},
			peer: func(p *plan, q *peer) (string, string, bool) {
				i, ok := p.index[q.bridge]
				if !ok || !q.addr.Is4() {
					return "", "", false
				}
				return first(p, i, q.addr)
			}},
		{name: "guests6", key: nftables.MustConcatSetType(name, nftables.TypeIP6Addr), concat: true, shared: true,
			of: func(p *plan, t *port) (string, string, bool) {
				return key(p.networks[t.network], p.addr6(t))
			},
			secondary: func(p *plan, s *secondary) (string, string, bool) {
				if !s.addr.Is6() {
					return "", "", false
				}
				return key(p.networks[s.network], s.addr)
			},
			peer: func(p *plan, q *peer) (string, string, bool) {
				i, ok := p.index[q.bridge]
				if !ok {
					return "", "", false
				}
				return key(p.networks[i], p.addrs6[i](q.mac))
			}},
	}
}

// unknownGuests drop what the node would forward to an address of a crowded network that no guest has: from outside, or of a guest
// that sends to a neighbour by way of the node.
func unknownGuests() (rules []rule) {
	destination := &expr.Payload{DestRegister: 2, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6}
	for _, v := range []struct {
		version                   exprs
		target                    *expr.Payload
		crowded, prefixes, guests string
	}{
		{ipv4(), ipTarget(), "crowded", "prefixes", "guests"},
		{ipv6(), ip6Target(), "crowded6", "prefixes6", "guests6"},
	} {
		to := func(set string, invert bool) exprs {
			return exprs{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, v.target,
				&expr.Lookup{SourceRegister: 1, SetName: set, Invert: invert}}
		}
		nobody := cat(in(expr.MetaKeyOIFNAME, v.crowded), to(v.prefixes, false), to(v.guests, true))
		rules = append(rules,
			rule{"to an address that no guest of a peer has", cat(v.version, fromPeer(), nobody, drop())},
			rule{"to an address that no guest has, from outside", cat(v.version, notIn(expr.MetaKeyIIFNAME, "bridges"), nobody, drop())},
			rule{"to an address that no guest has, by way of the node", cat(v.version, pair(destination, "bridge-macs"), nobody, drop())})
	}
	return rules
}

// hookARPInput is NF_ARP_IN of linux/netfilter_arp.h, whose hooks have numbers of their own.
const hookARPInput = 0

// arpTable returns the table that drops ARP which a guest's port passes to the node past its bridge.
// The kernel does so with frames to 01:80:c2:00:00:0e (br_handle_frame), and neither the bridge table
// nor the inet table sees them. The node would answer for each of its addresses, and a guest could
// fill the node's one neighbour table with forged senders. ARP that is meant for the node arrives on
// the bridge's interface. Hosts on a bridged network do not learn of the node.
func arpTable() *table {
	return &table{
		family: nftables.TableFamilyARP,
		sets:   []set{ports(), wired()},
		chains: []chain{
			{name: "input", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookRef(hookARPInput), prio: 0, rules: []rule{
				{"past the bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
				{"past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
				{"from a bridged network", cat(fromWire(), drop())},
			}},
		},
	}
}
