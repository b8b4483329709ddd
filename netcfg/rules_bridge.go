package netcfg

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

// The offsets of the fields that the rules examine, in bytes from the start of the header (IEEE
// 802.3, RFC 826, RFC 791, RFC 2131).
func etherSaddr() *expr.Payload { return load(expr.PayloadBaseLLHeader, 2, 6, 6) }
func arpSha() *expr.Payload     { return load(expr.PayloadBaseNetworkHeader, 2, 8, 6) }
func arpSpa() *expr.Payload     { return load(expr.PayloadBaseNetworkHeader, 2, 14, 4) }
func arpTpa() *expr.Payload     { return load(expr.PayloadBaseNetworkHeader, 2, 24, 4) }
func ipSource() *expr.Payload   { return load(expr.PayloadBaseNetworkHeader, 2, 12, 4) }
func ipTarget() *expr.Payload   { return load(expr.PayloadBaseNetworkHeader, 2, 16, 4) }
func dhcpChaddr() *expr.Payload { return load(expr.PayloadBaseTransportHeader, 2, 8+28, 6) }

// igmpQuery is the type of an IGMP query (RFC 3376). The bridge takes the port of a querier for that
// of a router, and no longer floods other groups to ports that have not reported: a guest could keep
// its neighbours' solicitations from the node.
const igmpQuery = 0x11

// arpLength is the length of ARP for IPv4 on Ethernet.
const arpLength = 28

// The sets of ports on bridged and bare networks, from which the node takes only what it has marked, and of those among them whose
// DHCP requests this node answers, and no other host.
const (
	onWire  = "on-wire"
	ownDHCP = "own-dhcp"
	// noDHCP is that of the ports on bridged networks with IPv6 alone.
	noDHCP = "no-dhcp"
	// ownDHCP6 is that of DHCPv6.
	ownDHCP6 = "own-dhcp6"
)

// The sets of ports whose network has a protection turned off (seedbed.NetworkPermissions).
const (
	mayAddress   = "may-address"
	mayDHCP      = "may-dhcp"
	mayAdvertise = "may-advertise"
	mayClaim     = "may-claim"
)

// bridgeTable returns the table that proves who sent a frame. A guest's port passes only frames
// with the port's own MAC and its own IPv4 and IPv6 address or a link-local IPv6 address. Those to the
// metadata addresses get the port's mark. The rules are the same on every node. The sets say who
// may send what, so that an exception for one network does not open a port of another.
//
// A guest's interface that is not, or no longer, in the sets is closed. It is recognized by its
// name, "sb" and a digit. A foreign port of such a name is therefore closed too, even on a foreign
// bridge, because not every kernel can match the bridge of a port (nft_meta_bridge). Other ports
// are not affected. The bridges may have any name, since what the node sends through one does not
// pass prerouting.
func bridgeTable(p *plan) *table {
	return &table{
		family: nftables.TableFamilyBridge,
		sets:   bridgeSets(),
		chains: append([]chain{
			{name: "pre", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting, prio: -300, rules: preRules()},
			{name: "guest", rules: guestRules()},
			{name: "wire", rules: wireRules()},
			{name: "gateway", rules: fromGateway()},
			{name: "onto-uplink", rules: ontoUplink()},
			{name: "arp", rules: arpRules()},
			{name: "ip4-dhcp", rules: ip4DHCPRules()},
			{name: "ip4-claims", rules: ip4ClaimRules()},
			{name: "ip4-services", rules: ip4ServiceRules()},
			{name: "ip4", rules: ip4Rules()},
			{name: "ip6", rules: ip6Rules()},
			{name: "nd", rules: ndRules()},
			{name: "local", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookInput, prio: -300, rules: localRules()},
			{name: "sources", rules: sourceRules("sources", load(expr.PayloadBaseNetworkHeader, 2, 8, 16))},
			{name: "sources4", rules: sourceRules("sources4", ipSource())},
			{name: "sources-arp", rules: sourceRules("sources4", arpSpa())},
			{name: "by-wire", rules: byWireRules()},
			{name: "wire-sources", rules: wireSourceRules("wire-sources", 8, 16)},
			{name: "wire-sources4", rules: wireSourceRules("wire-sources4", 12, 4)},
			{name: "wire-sources-arp", rules: wireSourceRules("wire-sources4", 14, 4)},
			{name: "any-address", rules: anyAddressRules(12, 4, nodeAddrs)},
			{name: "any-address6", rules: anyAddressRules(8, 16, nodeAddrs6)},
			{name: "any-target6", rules: anyAddressRules(ndTargetAt, 16, nodeAddrs6)},
			{name: "onto-overlay", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookPostrouting, prio: -300, rules: overlayRules()},
			{name: "answers", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput, prio: -300, rules: answerRules()},
		}, groupChains(max(1, p.connections/16), 2*p.connections)...),
	}
}

func bridgeSets() []set {
	name, mac, mark := nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeMark
	ip, ip6 := nftables.TypeIPAddr, nftables.TypeIP6Addr
	some := func(of string, which func(n *seedbed.Network, t *port) bool) set {
		return set{name: of, key: name, of: func(p *plan, t *port) (string, string, bool) {
			return string(t.tap[:]), "", which(&p.networks[t.network], t)
		}}
	}
	allowed := func(of string, in func(seedbed.NetworkPermissions) bool) set {
		return some(of, func(n *seedbed.Network, _ *port) bool { return in(n.Allow) })
	}
	own := func(which func(netip.Addr) bool) func(p *plan, s *secondary) (string, string, bool) {
		return func(p *plan, s *secondary) (string, string, bool) {
			return string(s.tap[:]) + string(s.addr.AsSlice()), "", which(s.addr) && !s.far() && !p.passes(s.network, s.addr)
		}
	}
	var served []set
	for _, s := range services {
		served = append(served, some(s.ports, func(n *seedbed.Network, _ *port) bool { return s.on(*n) }))
	}
	return append([]set{
		// The known ports; the value is the MAC of the port's bridge.
		{name: "gates", key: name, value: mac, of: func(p *plan, t *port) (string, string, bool) {
			m := p.networks[t.network].MAC
			return string(t.tap[:]), string(m[:]), true
		}},
		// The MACs of the ports. The Linux of Debian 12 (6.1) does not match the keys of a map, such as who.
		{name: "macs", key: nftables.MustConcatSetType(name, mac), concat: true, of: func(_ *plan, t *port) (string, string, bool) {
			return t.tapAndMAC(), "", true
		}},
		{name: "who", key: nftables.MustConcatSetType(name, mac), concat: true, value: mark, of: func(_ *plan, t *port) (string, string, bool) {
			return t.tapAndMAC(), string(markValue(t.mark)), true
		}},
		{name: "addrs", key: nftables.MustConcatSetType(name, ip), concat: true, of: func(p *plan, t *port) (string, string, bool) {
			return string(t.tap[:]) + string(t.addr[:]), "", t.addr != [4]byte{} && !p.passes(t.network, netip.AddrFrom4(t.addr))
		}, secondary: own(netip.Addr.Is4)},
		{name: "addrs6", key: nftables.MustConcatSetType(name, ip6), concat: true, of: func(p *plan, t *port) (string, string, bool) {
			a := p.addr6(t)
			if !a.IsValid() || p.passes(t.network, a) {
				return "", "", false
			}
			return string(t.tap[:]) + string(a.AsSlice()), "", true
		}, secondary: own(netip.Addr.Is6)},
		{name: "answers", key: nftables.MustConcatSetType(name, mark), concat: true, of: func(_ *plan, t *port) (string, string, bool) {
			return string(t.tap[:]) + string(markValue(t.mark)), "", true
		}},
		some(mayAddress, func(n *seedbed.Network, t *port) bool { return n.Allow.Addresses || !n.Addressed() }),
		some(onWire, func(n *seedbed.Network, _ *port) bool { return n.Kind == seedbed.NetworkBridged || n.Bare() }),
		some(ownDHCP, func(n *seedbed.Network, _ *port) bool {
			return n.Kind == seedbed.NetworkBridged && n.DHCP && !n.Only6()
		}),
		some(noDHCP, func(n *seedbed.Network, _ *port) bool { return n.Kind == seedbed.NetworkBridged && n.Only6() }),
		some(ownDHCP6, func(n *seedbed.Network, _ *port) bool {
			return n.Kind == seedbed.NetworkBridged && n.DHCP && n.Prefix6.IsValid()
		}),
		// The bridges' ports to the networks that they are bridged to.
		{name: "uplinks", key: name, fixed: func(p *plan, add func(key, value string)) {
			for _, u := range p.uplinks {
				if u.port != "" {
					add(string(ifname(u.port)), "")
				}
			}
		}},
		// The gateways at which the node resolves names.
		{name: "resolving", key: ip, fixed: func(p *plan, add func(key, value string)) {
			all := map[netip.Addr]bool{} // isolated networks may have the same
			for _, n := range p.networks {
				if n.ResolvesAtGateway() && !all[n.Gateway] {
					all[n.Gateway] = true
					add(string(n.Gateway.AsSlice()), "")
				}
			}
		}},
		uplinkServices("uplink-services", ip, netip.Addr.Is4),
		uplinkServices("uplink-services6", ip6, netip.Addr.Is6),
		allowed(mayDHCP, func(a seedbed.NetworkPermissions) bool { return a.DHCPServer }),
		allowed(mayAdvertise, func(a seedbed.NetworkPermissions) bool { return a.RouterAdvertisements }),
		allowed(mayClaim, func(a seedbed.NetworkPermissions) bool { return a.MetadataAddresses }),
	}, slices.Concat(served, sourceSets(), rateSets(), groupSets(), overlaySets())...)
}

// uplinkServices returns the set of the addresses of a version of IP at which a node serves a bridged network or an overlay, by
// its uplink: those of its services, and in an overlay its own.
func uplinkServices(called string, addr nftables.SetDatatype, which func(netip.Addr) bool) set {
	return set{name: called, key: nftables.MustConcatSetType(nftables.TypeIFName, addr), concat: true,
		fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				port := p.uplinks[n.Bridge].port
				if port == "" {
					continue
				}
				offered(which)(n, string(ifname(port)), add)
				for _, a := range []netip.Addr{n.Gateway, n.Gateway6()} {
					if n.VNI != 0 && which(a) {
						add(string(ifname(port))+string(a.AsSlice()), "")
					}
				}
			}
		}}
}

// may and mayNot match whether the frame's port is in one of the sets of allowances.
func may(set string) exprs    { return in(expr.MetaKeyIIFNAME, set) }
func mayNot(set string) exprs { return notIn(expr.MetaKeyIIFNAME, set) }

func preRules() []rule {
	listed := exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: "gates", DestRegister: 3, IsDestRegSet: true}}
	return []rule{
		{"a guest's port", cat(listed, gotoChain("guest"))},
		{"a guest's port that is not listed", cat(iifGuest(), drop())},
		{"an uplink", cat(in(expr.MetaKeyIIFNAME, "uplinks"), gotoChain("wire"))},
	}
}

// wireRules keep hosts on a bridged network from answering for the services of the node, and from passing for a guest whose MAC
// tells its security groups, unless that one is on another node of the network.
func wireRules() []rule {
	rules := []rule{
		{"no guest of the overlay", cat(in(expr.MetaKeyIIFNAME, overlayPorts), notPair(etherSaddr(), "peers"), gotoChain("gateway"))},
		{"a MAC of a member of security groups", cat(exprs{load(expr.PayloadBaseLLHeader, 1, 6, 6),
			&expr.Lookup{SourceRegister: 1, SetName: "members", DestRegister: 1, IsDestRegSet: true}}, notPair(etherSaddr(), "peers"), drop())},
		{"ARP claim of the metadata address", cat(ethertype(unix.ETH_P_ARP), network(14, seedbed.MetadataAddr.AsSlice()...), drop())},
		{"from the metadata address", cat(ethertype(unix.ETH_P_IP), ipSaddr(seedbed.MetadataAddr), drop())},
		{"ARP claim of a service of the node", cat(ethertype(unix.ETH_P_ARP), pair(arpSpa(), "uplink-services"), drop())},
		{"from a service of the node", cat(ethertype(unix.ETH_P_IP), pair(ipSource(), "uplink-services"), drop())},
	}
	for _, a := range metadata6() {
		rules = append(rules,
			rule{"from " + a.String(), cat(ethertype(unix.ETH_P_IPV6), ip6Saddr(a), drop())},
			rule{"advertisement of " + a.String(), cat(ethertype(unix.ETH_P_IPV6), icmp6(neighbourAdvertisement), ndTarget(a), drop())})
	}
	return append(rules,
		rule{"from an IPv6 service of the node", cat(ethertype(unix.ETH_P_IPV6), pair(ip6Source(), "uplink-services6"), drop())},
		rule{"advertisement of an IPv6 service of the node", cat(ethertype(unix.ETH_P_IPV6), icmp6(neighbourAdvertisement),
			pair(ndTargetAny(), "uplink-services6"), drop())})
}

func guestRules() []rule {
	return []rule{
		{"another's MAC", cat(notPair(etherSaddr(), "macs"), drop())},
		{"ARP", cat(ethertype(unix.ETH_P_ARP), networkRange(arpLength-1, 0, 255), gotoChain("arp"))},
		{"IPv6", cat(ethertype(unix.ETH_P_IPV6), gotoChain("ip6"))},
		{"IPv4", cat(ethertype(unix.ETH_P_IP), anyProtocol(), gotoChain("ip4"))},
		{"VLAN tags, other protocols, and what is cut short", drop()},
	}
}

// anyAddressRules decide on packets that are not from the guest's own address. No guest passes for a node: the others
// believe what that sends for overlays. The source is at an offset, and nodes are the addresses of nodes.
func anyAddressRules(offset, size uint32, nodes string) []rule {
	return []rule{
		{"another's address", cat(mayNot(mayAddress), drop())},
		{"a node's address", cat(addrIn(offset, size, nodes), drop())},
	}
}

// markAndTake sets the port's mark on the packet and delivers the frame to the bridge itself,
// whatever gateway the guest sent it to.
func markAndTake() exprs {
	return append(mark(),
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: "gates", DestRegister: 3, IsDestRegSet: true},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 3, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
		&expr.Immediate{Register: 3, Data: []byte{unix.PACKET_HOST}},
		&expr.Meta{Key: expr.MetaKeyPKTTYPE, SourceRegister: true, Register: 3})
}

// mark sets the port's mark on the packet.
func mark() exprs {
	return exprs{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, etherSaddr(),
		&expr.Lookup{SourceRegister: 1, SetName: "who", DestRegister: 3, IsDestRegSet: true},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 3},
	}
}

// localRules close the path around the bridge: frames to 01:80:c2:00:00:0X skip prerouting and
// reach the node as if the port were not bridged (br_handle_frame). Those to :0e skip these rules
// as well: the inet table drops the packets that they carry, and arpTable their ARP. Frames to the MAC of the port itself
// are made frames to the bridge, by whose MAC the inet table knows what the node forwards for guests. IPv6 packets to
// the node are checked again, see sourceRules, unless they are from an address that the node knows to be the guest's. The mark says
// whose queries to the resolver are.
func localRules() []rule {
	listed := exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: "gates", DestRegister: 3, IsDestRegSet: true}}
	return []rule{
		{"of another node, by an overlay", cat(in(expr.MetaKeyIIFNAME, overlayPorts), drop())},
		{"to the bridge, whatever MAC of the node it is sent to", cat(listed, toOne(), exprs{&expr.Payload{
			OperationType: expr.PayloadWrite, SourceRegister: 3, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6}})},
		{"link-local group addresses", cat(listed, toGroup(), drop())},
		{"link-local group addresses from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
		{"of a guest to a gateway that resolves names: mark", cat(ethertype(unix.ETH_P_IP), exprs{load(expr.PayloadBaseNetworkHeader, 1, 16, 4),
			&expr.Lookup{SourceRegister: 1, SetName: "resolving"}}, mark())},
		{"IPv6 of a guest to the host, from an address that it was given", cat(ethertype(unix.ETH_P_IPV6), pair(ip6Source(), "addrs6"),
			accept())},
		{"IPv6 of a guest to the host", cat(ethertype(unix.ETH_P_IPV6), listed, gotoChain("sources"))},
		{"IPv4 of a guest to the host, from any address", cat(ethertype(unix.ETH_P_IP), may(mayAddress), gotoChain("sources4"))},
		{"ARP of a guest to the host, from any address", cat(ethertype(unix.ETH_P_ARP), may(mayAddress), gotoChain("sources-arp"))},
		{"of a guest, by the bridge of an uplink", cat(in(expr.MetaKeyIIFNAME, wireEnds), gotoChain("by-wire"))},
	}
}

// byWireRules check the sources of what a guest sends to the node by the bridge of its uplink, see sourceRules.
func byWireRules() []rule {
	return []rule{
		{"IPv6", cat(ethertype(unix.ETH_P_IPV6), gotoChain("wire-sources"))},
		{"IPv4", cat(ethertype(unix.ETH_P_IP), gotoChain("wire-sources4"))},
		{"ARP", cat(ethertype(unix.ETH_P_ARP), gotoChain("wire-sources-arp"))},
	}
}

// answerRules let an answer of the metadata service or of DHCPv6 leave only by the port that the connection's or the request's
// mark names. No other guest receives it, even if a neighbour took over the guest's link-local
// address or the bridge floods the frame. Answers without a mark are for callers that did not pass
// the rules. To a bridged network, the node sends nothing of its own: it is not a host there.
func answerRules() []rule {
	marked := not(meta(expr.MetaKeyMARK, 0, 0, 0, 0))
	elsewhere := exprs{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, &expr.Meta{Key: expr.MetaKeyMARK, Register: 2},
		&expr.Lookup{SourceRegister: 1, SetName: "answers", Invert: true}}
	rules := []rule{
		{"of the node, to a bridged network", cat(in(expr.MetaKeyOIFNAME, "uplinks"), gotoChain("onto-uplink"))},
		{"metadata of another guest", cat(ethertype(unix.ETH_P_IP), ipSaddr(seedbed.MetadataAddr), sport(unix.IPPROTO_TCP, 80), marked,
			elsewhere, drop())},
	}
	for _, a := range metadata6() {
		rules = append(rules, rule{"metadata of another guest, from " + a.String(),
			cat(ethertype(unix.ETH_P_IPV6), ip6Saddr(a), sport(unix.IPPROTO_TCP, 80), marked, elsewhere, drop())})
	}
	return append(rules, rule{"DHCPv6 of another guest",
		cat(ethertype(unix.ETH_P_IPV6), sport(unix.IPPROTO_UDP, 547), marked, elsewhere, drop())})
}
