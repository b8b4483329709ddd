package netcfg

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

var (
	lastAddr  = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	lastAddr6 = netip.AddrFrom16([16]byte(bytes.Repeat([]byte{255}, 16)))
)

// bridgesOf returns the set of the bridges of some networks.
func bridgesOf(called string, which func(seedbed.Network) bool) set {
	return set{name: called, key: nftables.TypeIFName, fixed: func(p *plan, add func(key, value string)) {
		for _, n := range p.networks {
			if which(n) {
				add(string(ifname(n.Bridge)), "")
			}
		}
	}}
}

// wired returns the set of the bridges that hosts reach which are not guests of this node. What such a host sends to
// the node has no mark, and what a guest sends to a service has one: see markAndTake. In a bare network guests have any address, so the
// node takes nothing else from them either: it would answer to where they say that they are.
func wired() set {
	return set{name: "wired", key: nftables.TypeIFName, fixed: func(p *plan, add func(key, value string)) {
		for _, n := range p.networks {
			if n.Bare() {
				add(string(ifname(n.Bridge)), "")
			}
		}
		for bridge, u := range p.uplinks {
			if u.made != madeVXLAN { // the bridge table keeps what comes by an overlay from the node
				add(string(ifname(bridge)), "")
			}
		}
	}}
}

// fromWire matches what a host on a bridged network sends to the node.
func fromWire() exprs {
	return cat(in(expr.MetaKeyIIFNAME, "wired"), meta(expr.MetaKeyMARK, 0, 0, 0, 0))
}

// service is what a node offers its guests besides metadata, at an address that every bridge of a network with it has: an
// IPv4 or an IPv6 one.
type service struct {
	name string
	addr netip.Addr
	port uint16
	// protocols are unix.IPPROTO_….
	protocols []byte
	// ports is the set of the ports of networks that have it.
	ports string
	on    func(seedbed.Network) bool
}

var services = []service{
	{"the node's resolver", seedbed.ResolverAddr, 53, []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP}, "resolved", seedbed.Network.Resolves},
	{"the node's resolver over IPv6", seedbed.ResolverAddr6, 53, []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP}, "resolved6",
		seedbed.Network.Resolves6},
	{"the node's time server", seedbed.TimeAddr, 123, []byte{unix.IPPROTO_UDP}, "timed", seedbed.Network.KeepsTime},
	{"the node's time server over IPv6", seedbed.TimeAddr6, 123, []byte{unix.IPPROTO_UDP}, "timed6", seedbed.Network.KeepsTime6},
}

// ofServices returns some rules for each service that has an IPv4 address, and ofServices6 for each other.
func ofServices(rules func(s service) []rule) []rule  { return rulesOf(netip.Addr.Is4, rules) }
func ofServices6(rules func(s service) []rule) []rule { return rulesOf(netip.Addr.Is6, rules) }

func rulesOf(which func(netip.Addr) bool, rules func(s service) []rule) (all []rule) {
	for _, s := range services {
		if which(s.addr) {
			all = append(all, rules(s)...)
		}
	}
	return all
}

// taken returns the rules that take what a guest sends to the service off the wire, and bound it. to matches its address, and
// fragment a fragment of that version of IP.
func (s service) taken(to, fragment exprs) []rule {
	to = cat(to, may(s.ports))
	rules := []rule{
		{"fragments to " + s.name, cat(to, fragment, drop())},
		{"too many queries to " + s.name, cat(to, tooManyQueries(s), drop())},
	}
	if slices.Contains(s.protocols, unix.IPPROTO_TCP) {
		rules = append(rules, rule{"too many connections to " + s.name, cat(to, dport(unix.IPPROTO_TCP, s.port), tooManyCalls(), drop())})
	}
	for _, p := range s.protocols {
		rules = append(rules, rule{s.name + ": mark, and off the wire", cat(to, dport(p, s.port), markAndTake())})
	}
	return rules
}

// serviceRules let pass what a guest needs of its node and its link, whatever its groups are. The rules that prove who
// sent a frame decide on it. What a guest sends to the node's services passes if those rules have taken it off the wire, and
// so marked it: to the same address, but another port or another host, its groups decide.
func serviceRules(w way, f family) []rule {
	const udp = unix.IPPROTO_UDP
	out := w.direction == seedbed.DirectionOut
	client, server := uint16(68), uint16(67)
	if f.name == "6" {
		client, server = 546, 547
	}
	dhcp := cat(sport(udp, server), dport(udp, client), accept())
	if out { // to the whole link alone, so that it is no way around the rules: a client whose renewal is dropped asks so
		link := ipDaddr(lastAddr)
		if f.name == "6" {
			link = masked(network(24, 0xff, 0x02), 0xff, 0xff)
		}
		dhcp = cat(link, sport(udp, client), dport(udp, server), accept())
	}
	rules := []rule{{"DHCP", dhcp}}
	taken := takenFromWire(w)
	if f.name == "4" {
		return append(rules,
			rule{"services", cat(linkLocal4(w.remote4), jumpChain(string(w.direction)+"4-services"))},
			rule{"IGMP", cat(l4proto(unix.IPPROTO_IGMP), accept())})
	}
	for _, a := range metadata6() {
		rules = append(rules, rule{"metadata at " + a.String(), cat(network(w.remote6, a.AsSlice()...), taken, accept())})
	}
	rules = append(rules, ofServices6(func(s service) []rule {
		return []rule{{s.name, cat(network(w.remote6, s.addr.AsSlice()...), in(w.name, s.ports), taken, accept())}}
	})...)
	return append(rules,
		rule{"multicast listeners", cat(icmp6Types(mldQuery, mldDone), accept())},
		rule{"multicast listeners, MLDv2", cat(icmp6(mld2Report), accept())},
		rule{"neighbour discovery", cat(icmp6Types(routerSolicitation, icmp6Redirect), accept())})
}

// takenFromWire matches what the rules that prove who sent a frame have marked, if it is from the guest.
func takenFromWire(w way) exprs {
	if w.direction != seedbed.DirectionOut {
		return nil
	}
	return not(meta(expr.MetaKeyMARK, 0, 0, 0, 0))
}

// service4Rules let pass what a guest sends to the IPv4 addresses of the node's services, and what these answer.
func service4Rules(w way) []rule {
	taken := takenFromWire(w)
	rules := []rule{{"metadata", cat(network(w.remote4, seedbed.MetadataAddr.AsSlice()...), taken, accept())}}
	return append(rules, ofServices(func(s service) []rule {
		return []rule{{s.name, cat(network(w.remote4, s.addr.AsSlice()...), in(w.name, s.ports), taken, accept())}}
	})...)
}

// networkSets returns the sets of the inet table that say what the networks are, by their bridges.
func networkSets() []set {
	name := nftables.TypeIFName
	nameAndAddr, nameAndAddr6 := nftables.MustConcatSetType(name, nftables.TypeIPAddr), nftables.MustConcatSetType(name, nftables.TypeIP6Addr)
	type adder = func(key, value string)
	// each returns set.fixed of a set to which every network, with its bridge, adds its own elements.
	each := func(of func(n seedbed.Network, bridge string, add adder)) func(*plan, adder) {
		return func(p *plan, add adder) {
			for _, n := range p.networks {
				of(n, string(ifname(n.Bridge)), add)
			}
		}
	}
	return []set{
		// The bridges that the node is protected from.
		{name: "bridges", key: name, fixed: func(p *plan, add adder) {
			for _, n := range p.networks {
				add(string(ifname(n.Bridge)), "")
			}
			for _, b := range p.closed {
				add(string(ifname(b)), "")
			}
		}},
		bridgesOf("outside", func(n seedbed.Network) bool { return n.Kind.Outside() }),
		bridgesOf("nat", func(n seedbed.Network) bool { return n.NAT }),
		bridgesOf("routed", func(n seedbed.Network) bool { return n.Kind.Outside() && !n.NAT }),
		wired(),
		// Each bridge twice: what comes from it and goes to it.
		{name: "within", key: nftables.MustConcatSetType(name, name), concat: true,
			fixed: each(func(_ seedbed.Network, bridge string, add adder) { add(bridge+bridge, "") })},
		// The addresses of a network, from the first to the last.
		{name: "prefixes", key: nameAndAddr, concat: true, interval: true,
			fixed: each(func(n seedbed.Network, bridge string, add adder) {
				first, last := zeroAddr, lastAddr
				switch {
				case n.Prefix.IsValid():
					first, last = n.Prefix.Masked().Addr(), seedbed.LastAddr(n.Prefix)
				case n.Only6():
					return
				}
				add(bridge+string(first.AsSlice()), bridge+string(last.AsSlice()))
			})},
		{name: "prefixes6", key: nameAndAddr6, concat: true, interval: true,
			fixed: each(func(n seedbed.Network, bridge string, add adder) {
				first, last := zero6, lastAddr6
				switch p := n.Prefix6; {
				case p.IsValid():
					first, last = p.Addr(), seedbed.LastAddr(p)
				case !fromElsewhere(n):
					return
				}
				add(bridge+string(first.AsSlice()), bridge+string(last.AsSlice()))
			})},
		bridgesOf("with-peers", func(n seedbed.Network) bool { return len(n.Peers) > 0 }),
		// The bridges of peers: by which a packet comes, and by which it goes.
		{name: "peered", key: nftables.MustConcatSetType(name, name), concat: true, fixed: func(p *plan, add adder) {
			for _, n := range p.networks {
				for _, o := range p.peersOf(n) {
					add(string(ifname(n.Bridge))+string(ifname(o.Bridge)), "")
				}
			}
		}},
		// The addresses of its peers, by the bridge of a network.
		peerPrefixes(peered4, nameAndAddr, func(n seedbed.Network) netip.Prefix { return n.Prefix }),
		peerPrefixes(peered6, nameAndAddr6, func(n seedbed.Network) netip.Prefix { return n.Prefix6 }),
		{name: "dns", key: nameAndAddr, concat: true, fixed: each(func(n seedbed.Network, bridge string, add adder) {
			for _, d := range n.DNS4() {
				add(bridge+string(d.AsSlice()), "")
			}
			if n.ResolvesAtGateway() && !slices.Contains(n.DNS, n.Gateway) {
				add(bridge+string(n.Gateway.AsSlice()), "")
			}
		})},
		{name: "dns6", key: nameAndAddr6, concat: true, fixed: each(func(n seedbed.Network, bridge string, add adder) {
			for _, d := range n.DNS6() {
				add(bridge+string(d.AsSlice()), "")
			}
		})},
		{name: "clocks", key: nameAndAddr, concat: true, fixed: each(func(n seedbed.Network, bridge string, add adder) {
			if n.KeepsTime() {
				add(bridge+string(seedbed.TimeAddr.AsSlice()), "")
			}
		})},
		{name: "clocks6", key: nameAndAddr6, concat: true, fixed: each(func(n seedbed.Network, bridge string, add adder) {
			if n.KeepsTime6() {
				add(bridge+string(seedbed.TimeAddr6.AsSlice()), "")
			}
		})},
		// What a node itself offers. At the gateway it is tracked, as other servers there are.
		{name: "services", key: nameAndAddr, concat: true, fixed: each(offered(netip.Addr.Is4))},
		{name: "services6", key: nameAndAddr6, concat: true, fixed: each(offered(netip.Addr.Is6))},
		{name: "zones", key: name, value: nftables.TypeMark, fixed: func(p *plan, add adder) {
			zones := p.zones()
			for _, n := range p.networks {
				add(string(ifname(n.Bridge)), zoneValue(zones[n.Bridge]))
			}
		}},
	}
}

// The sets of the addresses of peers.
const (
	peered4 = "peered4"
	peered6 = "peered6"
)

func peerPrefixes(called string, key nftables.SetDatatype, of func(seedbed.Network) netip.Prefix) set {
	return set{name: called, key: key, concat: true, interval: true, fixed: func(p *plan, add func(key, value string)) {
		for _, n := range p.networks {
			for _, o := range p.peersOf(n) {
				if to := of(o); to.IsValid() {
					bridge := string(ifname(n.Bridge))
					add(bridge+string(to.Masked().Addr().AsSlice()), bridge+string(seedbed.LastAddr(to).AsSlice()))
				}
			}
		}
	}}
}

// untrackedPeers keep what guests send to those of peers out of the connection table, where it would be in the zones of two
// networks. So it is not translated either, and ends with the peering. With br_netfilter, that also holds for what comes from
// the guests of peers on other nodes.
func untrackedPeers() []rule {
	from := func(version exprs, source *expr.Payload, prefixes string, target *expr.Payload, peers string) exprs {
		return cat(version, pair(target, peers), pair(source, prefixes), toAnotherHost(), exprs{&expr.Notrack{}}, accept())
	}
	return []rule{
		{"to a peer", from(ipv4(), ipSource(), "prefixes", ipTarget(), peered4)},
		{"to a peer over IPv6", from(ipv6(), ip6Source(), "prefixes6", ip6Target(), peered6)},
		{"of a peer on another node", from(ipv4(), ipSource(), peered4, ipTarget(), "prefixes")},
		{"of a peer on another node, over IPv6", from(ipv6(), ip6Source(), peered6, ip6Target(), "prefixes6")},
	}
}

// fromPeer matches what comes by the bridge of a network, and goes to that of a peer.
func fromPeer() exprs {
	return exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 2},
		&expr.Lookup{SourceRegister: 1, SetName: "peered"}}
}

// toPeers let the guests of peers reach each other with addresses of their networks. What the node would send elsewhere, since
// it has another route there, is dropped.
func toPeers() []rule {
	away := notIn(expr.MetaKeyOIFNAME, "bridges")
	return []rule{
		{"to a peer", cat(ipv4(), fromPeer(), pair(ipSource(), "prefixes"), pairOf(expr.MetaKeyOIFNAME, ipTarget(), "prefixes"), accept())},
		{"to a peer over IPv6", cat(ipv6(), fromPeer(), pair(ip6Source(), "prefixes6"),
			pairOf(expr.MetaKeyOIFNAME, ip6Target(), "prefixes6"), accept())},
		{"to a peer, another way", cat(ipv4(), away, pair(ipTarget(), peered4), drop())},
		{"to a peer, another way, over IPv6", cat(ipv6(), away, pair(ip6Target(), peered6), drop())},
	}
}

// offered returns a function that adds the addresses of the services that a network has, those of a version of IP.
func offered(which func(netip.Addr) bool) func(n seedbed.Network, bridge string, add func(key, value string)) {
	return func(n seedbed.Network, bridge string, add func(key, value string)) {
		for _, s := range services {
			if s.on(n) && which(s.addr) {
				add(bridge+string(s.addr.AsSlice()), "")
			}
		}
	}
}
