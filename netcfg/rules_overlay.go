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

// The sets of the ports of bridges to overlays, of those whose guests each node tells their addresses, of the addresses of all nodes
// and of this one, and of the numbers of overlays as they are in a packet.
const (
	overlayPorts = "overlays"
	addressing   = "addressing"
	nodeAddrs    = "nodes"
	nodeAddrs6   = "nodes6"
	ownAddr      = "own-node"
	ownAddr6     = "own-node6"
	overlayVNIs  = "vnis"
)

// The sets by which the guests of two overlays that are peers reach each other across nodes. The node of the sender is the router
// between both, and sends as the gateway into the overlay of the receiver. The sets are of the MACs of gateways, of the prefixes of peers,
// both by the port to the overlay, and of the addresses of the guests of other nodes.
const (
	gatewayMACs = "gateways"
	crossing4   = "crossing4"
	crossing6   = "crossing6"
	crossers4   = "crossers4"
	crossers6   = "crossers6"
)

// crossingSets returns them. Of an address, its network does not matter: the prefixes of networks that have peers do not overlap
// (checkOverlaps).
func crossingSets() []set {
	name, ip, ip6 := nftables.TypeIFName, nftables.TypeIPAddr, nftables.TypeIP6Addr
	type adder = func(key, value string)
	each := func(of func(n seedbed.Network, overlays []seedbed.Network, port string, add adder)) func(*plan, adder) {
		return func(p *plan, add adder) {
			for _, n := range p.networks {
				if u := p.uplinks[n.Bridge]; p.joined[n.Bridge] && u.made == madeVXLAN {
					of(n, p.overlaysOf(n), string(ifname(u.port)), add)
				}
			}
		}
	}
	prefixes := func(called string, addr nftables.SetDatatype, of func(seedbed.Network) netip.Prefix) set {
		return set{name: called, key: nftables.MustConcatSetType(name, addr), concat: true, interval: true,
			fixed: each(func(_ seedbed.Network, overlays []seedbed.Network, port string, add adder) {
				for _, o := range overlays {
					if from := of(o); from.IsValid() {
						add(port+string(from.Masked().Addr().AsSlice()), port+string(seedbed.LastAddr(from).AsSlice()))
					}
				}
			})}
	}
	crossers := func(called string, addr nftables.SetDatatype, which func(netip.Addr) bool, of func(*plan, *peer) netip.Addr) set {
		return set{name: called, key: addr, shared: true,
			peer: func(p *plan, q *peer) (string, string, bool) {
				if !p.joined[q.bridge] {
					return "", "", false
				}
				a := of(p, q)
				return string(a.AsSlice()), "", a.IsValid()
			},
			secondary: func(p *plan, s *secondary) (string, string, bool) {
				return string(s.addr.AsSlice()), "", s.far() && p.joined[p.networks[s.network].Bridge] && which(s.addr)
			}}
	}
	return []set{
		{name: gatewayMACs, key: nftables.MustConcatSetType(name, nftables.TypeEtherAddr), concat: true,
			fixed: each(func(n seedbed.Network, _ []seedbed.Network, port string, add adder) {
				add(port+pad(string(n.MAC[:])), "")
			})},
		prefixes(crossing4, ip, func(n seedbed.Network) netip.Prefix { return n.Prefix }),
		prefixes(crossing6, ip6, func(n seedbed.Network) netip.Prefix { return n.Prefix6 }),
		crossers(crossers4, ip, netip.Addr.Is4, func(_ *plan, q *peer) netip.Addr { return q.addr }),
		crossers(crossers6, ip6, netip.Addr.Is6, func(p *plan, q *peer) netip.Addr { return p.addrs6[p.index[q.bridge]](q.mac) }),
	}
}

// fromGateway decides on what comes by an overlay and is not from one of its guests. The gateway of another node, which is a router, sends
// for the known guests of peers there, and to a single guest here. What a gateway says for itself stays on its node.
func fromGateway() []rule {
	known := func(prefixes, guests string, source *expr.Payload) exprs {
		return cat(pair(source, prefixes), exprs{&expr.Payload{DestRegister: 1, Base: source.Base, Offset: source.Offset, Len: source.Len},
			&expr.Lookup{SourceRegister: 1, SetName: guests}}, accept())
	}
	return []rule{
		{"no guest of the overlay", cat(notPair(etherSaddr(), gatewayMACs), drop())},
		{"of a gateway to all", cat(toMany(), drop())},
		{"of a guest of a peer", cat(ethertype(unix.ETH_P_IP), known(crossing4, crossers4, ipSource()))},
		{"neighbour discovery of a gateway", cat(ethertype(unix.ETH_P_IPV6), icmp6Types(routerSolicitation, icmp6Redirect), drop())},
		{"of a guest of a peer over IPv6", cat(ethertype(unix.ETH_P_IPV6), known(crossing6, crossers6, ip6Source()))},
		{"no guest of a peer", drop()},
	}
}

// ontoUplink decides on what the node sends to a network that it is bridged to, where it is not a host. Into an overlay it forwards what
// its guests of peers send to a guest there, see fromGateway.
func ontoUplink() []rule {
	oif := expr.MetaKeyOIFNAME
	return []rule{
		{"to all", cat(toMany(), drop())},
		{"of a guest of a peer", cat(ethertype(unix.ETH_P_IP), pairOf(oif, ipSource(), crossing4), accept())},
		{"neighbour discovery", cat(ethertype(unix.ETH_P_IPV6), icmp6Types(routerSolicitation, icmp6Redirect), drop())},
		{"of a guest of a peer over IPv6", cat(ethertype(unix.ETH_P_IPV6), pairOf(oif, ip6Source(), crossing6), accept())},
		{"of the node", drop()},
	}
}

// toMany matches frames to a group or to all hosts, and toOne the others.
func toMany() exprs { return masked(eth(0, 1), 1) }
func toOne() exprs  { return masked(eth(0, 0), 1) }

// overlaySets returns those of the bridge table.
func overlaySets() []set {
	return slices.Concat([]set{
		{name: overlayPorts, key: nftables.TypeIFName, fixed: func(p *plan, add func(key, value string)) {
			for _, u := range p.uplinks {
				if u.made == madeVXLAN {
					add(string(ifname(u.port)), "")
				}
			}
		}},
		{name: addressing, key: nftables.TypeIFName, fixed: func(p *plan, add func(key, value string)) {
			for _, n := range p.networks {
				if u := p.uplinks[n.Bridge]; u.made == madeVXLAN && n.Addressed() {
					add(string(ifname(u.port)), "")
				}
			}
		}},
	}, nodeSets(), crossingSets())
}

// nodeSets returns the sets of the addresses of nodes.
func nodeSets() []set {
	return []set{
		addrSet(nodeAddrs, nftables.TypeIPAddr, netip.Addr.Is4, func(p *plan) []netip.Addr { return p.nodes }),
		addrSet(nodeAddrs6, nftables.TypeIP6Addr, netip.Addr.Is6, func(p *plan) []netip.Addr { return p.nodes }),
	}
}

// ownSets returns the sets of the addresses at which this node gets the frames of overlays.
func ownSets() []set {
	own := func(p *plan) []netip.Addr { return p.receives }
	return []set{addrSet(ownAddr, nftables.TypeIPAddr, netip.Addr.Is4, own), addrSet(ownAddr6, nftables.TypeIP6Addr, netip.Addr.Is6, own)}
}

func addrSet(name string, key nftables.SetDatatype, which func(netip.Addr) bool, of func(*plan) []netip.Addr) set {
	return set{name: name, key: key, fixed: func(p *plan, add func(key, value string)) {
		for _, a := range of(p) {
			if which(a) {
				add(string(a.AsSlice()), "")
			}
		}
	}}
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

// fromStrangers drops what comes for an overlay from elsewhere than a node, or to another address of this one: the kernel
// takes it at all of them. Other uses of VXLAN on the node are not affected.
func fromStrangers(p *plan) []rule {
	ours := ofOverlays()
	return append(append(p.inPlain(expr.MetaKeyIIFNAME), p.inTunnels()...), []rule{
		{"for an overlay, not from a node", cat(ipv4(), ours, addrNotIn(12, 4, nodeAddrs), drop())},
		{"for an overlay, at another address", cat(ipv4(), ours, addrNotIn(16, 4, ownAddr), drop())},
		{"for an overlay, not from a node, over IPv6", cat(ipv6(), ours, addrNotIn(8, 16, nodeAddrs6), drop())},
		{"for an overlay, at another address, over IPv6", cat(ipv6(), ours, addrNotIn(24, 16, ownAddr6), drop())},
	}...)
}

// ofOverlays matches the frames of overlays.
func ofOverlays() exprs {
	return cat(dport(unix.IPPROTO_UDP, seedbed.VXLANPort), exprs{load(expr.PayloadBaseTransportHeader, 1, 12, 4),
		&expr.Lookup{SourceRegister: 1, SetName: overlayVNIs}})
}

// inPlain drops the frames of overlays that come or go by another interface than that of the tunnels, if the node encrypts. So none
// leaves in plain where the interface or a route is missing.
func (p *plan) inPlain(key expr.MetaKey) []rule {
	if !p.encrypts() {
		return nil
	}
	return []rule{{"of an overlay, in plain", cat(ofOverlays(), not(meta(key, ifname(p.tunnelName())...)), drop())}}
}

// inTunnels lets nodes send each other frames of overlays in the tunnels, and what says that one was too big, and nothing else: a
// firewall of the node does not know the interface.
func (p *plan) inTunnels() []rule {
	if !p.encrypts() {
		return nil
	}
	tunnels := meta(expr.MetaKeyIIFNAME, ifname(p.tunnelName())...)
	between := cat(tunnels, ipv6(), addrIn(8, 16, nodeAddrs6), addrIn(24, 16, ownAddr6))
	return []rule{
		{"of an overlay, by a tunnel", cat(between, ofOverlays(), accept())},
		{"too big for a tunnel", cat(between, icmp6(packetTooBig), accept())},
		{"anything else by a tunnel", cat(tunnels, drop())},
	}
}

// pastTunnels keeps the node from forwarding into the tunnels and out of them.
func (p *plan) pastTunnels() []rule {
	if !p.encrypts() {
		return nil
	}
	name := ifname(p.tunnelName())
	return []rule{
		{"out of the tunnels", cat(meta(expr.MetaKeyIIFNAME, name...), drop())},
		{"into the tunnels", cat(meta(expr.MetaKeyOIFNAME, name...), drop())},
	}
}

// besideTunnels is NAT of what guests send from the port of the tunnels: the answers would be taken as the tunnels'. It goes from a
// port that the kernel draws.
func (p *plan) besideTunnels() []rule {
	if !p.encrypts() {
		return nil
	}
	masquerade := exprs{&expr.Masq{Random: true}}
	behind := cat(in(expr.MetaKeyIIFNAME, "nat"), notIn(expr.MetaKeyOIFNAME, "bridges"), sport(unix.IPPROTO_UDP, p.overlay.Port))
	return []rule{
		{"NAT beside the tunnels", cat(ipv4(), behind, pair(ipSource(), "prefixes"), masquerade)},
		{"NAT beside the tunnels, over IPv6", cat(ipv6(), behind, pair(ip6Source(), "prefixes6"), masquerade)},
	}
}

// addrIn matches packets that have, at an offset, what is in a set; addrNotIn is its opposite.
func addrIn(offset, size uint32, set string) exprs {
	return exprs{load(expr.PayloadBaseNetworkHeader, 1, offset, size), &expr.Lookup{SourceRegister: 1, SetName: set}}
}

func addrNotIn(offset, size uint32, set string) exprs {
	return exprs{load(expr.PayloadBaseNetworkHeader, 1, offset, size), &expr.Lookup{SourceRegister: 1, SetName: set, Invert: true}}
}

// guestsToNodes drops what guests send to the VXLAN of a node, and behind NAT to that of any host outside of their network: it
// would come from a node.
func guestsToNodes() []rule {
	vxlan := cat(dport(unix.IPPROTO_UDP, seedbed.VXLANPort), notIn(expr.MetaKeyOIFNAME, "bridges"))
	return []rule{
		{"VXLAN of a guest behind NAT", cat(ipv4(), vxlan, in(expr.MetaKeyIIFNAME, "nat"), drop())},
		{"VXLAN of a guest as the answer to a forward", cat(ipv4(), vxlan, in(expr.MetaKeyIIFNAME, "outside"), ctStatus(statusDNAT), drop())},
		{"VXLAN of a guest to a node", cat(ipv4(), vxlan, in(expr.MetaKeyIIFNAME, "bridges"), addrIn(16, 4, nodeAddrs), drop())},
		{"VXLAN of a guest behind NAT, over IPv6", cat(ipv6(), vxlan, in(expr.MetaKeyIIFNAME, "nat"), drop())},
		{"VXLAN of a guest to a node, over IPv6", cat(ipv6(), vxlan, in(expr.MetaKeyIIFNAME, "bridges"), addrIn(24, 16, nodeAddrs6), drop())},
	}
}

// untrackedOverlays keep the frames of overlays out of the connection table: a guest could fill it with broadcasts, each of
// which goes to every node by a port of its own.
//
// Nor are the packets of tunnels tracked: a connection of a guest behind NAT could have the same ports, and its answers would
// be those of the other node. They may go from any address of this one, which its routes choose. A floating address is a guest's.
func untrackedOverlays(p *plan, key expr.MetaKey) []rule {
	leave := cat(exprs{&expr.Notrack{}}, accept())
	between := cat(dport(unix.IPPROTO_UDP, seedbed.VXLANPort), leave)
	whole := masked(network(6, 0, 0), 0x3f, 0xff)
	rules := []rule{
		{"overlays", cat(ipv4(), whole, addrIn(12, 4, nodeAddrs), addrIn(16, 4, nodeAddrs), between)},
		{"overlays, over IPv6", cat(ipv6(), addrIn(8, 16, nodeAddrs6), addrIn(24, 16, nodeAddrs6), network(6, unix.IPPROTO_UDP), between)},
	}
	if !p.encrypts() {
		return rules
	}
	if key == expr.MetaKeyOIFNAME {
		own := cat(notIn(key, "bridges"), sport(unix.IPPROTO_UDP, p.overlay.Port), leave)
		return append(append(p.inPlain(key), rules...),
			rule{"tunnels", cat(ipv4(), whole, own)},
			rule{"tunnels, over IPv6", cat(ipv6(), network(6, unix.IPPROTO_UDP), own)})
	}
	own := cat(addressType(expr.Fib{FlagDADDR: true}, unix.RTN_LOCAL), notIn(key, "bridges"), dport(unix.IPPROTO_UDP, p.overlay.Port), leave)
	return append(rules,
		rule{"tunnels", cat(ipv4(), whole, addrNotIn(16, 4, "floating-addrs"), own)},
		rule{"tunnels, over IPv6", cat(ipv6(), network(6, unix.IPPROTO_UDP), addrNotIn(24, 16, "floating-addrs6"), own)})
}

// overlayRules decide on what leaves by an overlay's VXLAN: each node answers its own guests. In a bare network, a guest may be what tells
// the others their addresses. What is for all costs the node a copy for
// each other one, so a guest may send so much of it, and search for neighbours that the node does not know so often.
func overlayRules() []rule {
	const udp = unix.IPPROTO_UDP
	told := in(expr.MetaKeyOIFNAME, addressing)
	rules := []rule{
		{"not to an overlay", cat(notIn(expr.MetaKeyOIFNAME, overlayPorts), accept())},
		{"DHCP", cat(ethertype(unix.ETH_P_IP), dport(udp, 67), told, drop())},
		{"answers to DHCP", cat(ethertype(unix.ETH_P_IP), dport(udp, 68), told, drop())},
		{"DHCPv6", cat(ethertype(unix.ETH_P_IPV6), dport(udp, 547), told, drop())},
		{"answers to DHCPv6", cat(ethertype(unix.ETH_P_IPV6), dport(udp, 546), told, drop())},
		{"router solicitations and advertisements", cat(ethertype(unix.ETH_P_IPV6), icmp6Types(routerSolicitation, routerAdvertisement), told,
			drop())},
		{"ARP for the metadata address", cat(ethertype(unix.ETH_P_ARP), network(24, seedbed.MetadataAddr.AsSlice()...), drop())},
		{"ARP for the node", cat(ethertype(unix.ETH_P_ARP), pairOf(expr.MetaKeyOIFNAME, arpTpa(), "uplink-services"), drop())},
	}
	for _, a := range metadata6() {
		rules = append(rules, rule{"solicitation of " + a.String(), cat(ethertype(unix.ETH_P_IPV6), icmp6(neighbourSolicitation),
			ndTarget(a), drop())})
	}
	neighbours := cat(ethertype(unix.ETH_P_IPV6), icmp6Types(neighbourSolicitation, neighbourAdvertisement))
	return append(rules, []rule{
		{"solicitation of the node", cat(ethertype(unix.ETH_P_IPV6), icmp6(neighbourSolicitation),
			pairOf(expr.MetaKeyOIFNAME, ndTargetAny(), "uplink-services6"), drop())},
		{"to one guest", cat(toOne(), accept())},
		{"too much ARP to all nodes", cat(ethertype(unix.ETH_P_ARP), tooManyCopies("search-rates"), drop())},
		{"ARP", cat(ethertype(unix.ETH_P_ARP), accept())},
		{"too much neighbour discovery to all nodes", cat(neighbours, tooManyCopies("search-rates"), drop())},
		{"neighbour discovery", cat(neighbours, accept())},
		{"too much to all nodes", cat(tooManyCopies("copy-rates"), drop())},
	}...)
}
