package netcfg

import (
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

// Security groups are enforced where the port is: what a guest sends when it reaches the bridge, after the rules that
// prove who sent it, and what it receives when it leaves the bridge. A port whose groups allow everything passes one
// lookup.
//
// The state of a connection is an element in one of the flow sets, named by the port, the addresses and the ports of
// both ends; the rules note it, since not every kernel tracks connections of bridges. An element is made by the first
// packet that a rule allows, and kept while packets pass, so a connection outlives a change of the rules.

// How long a flow is kept: after its first packet, and after the last further one. The longer ones are Amazon's
// ("Connection tracking" in the EC2 user guide).
const (
	newFlowTime   = 30 * time.Second
	tcpFlowTime   = 350 * time.Second
	otherFlowTime = 180 * time.Second
	fragmentTime  = 30 * time.Second
)

const (
	// flowsSize bounds the flows of all ports, of each protocol.
	flowsSize = 1 << 21
	// manyHosts is how many times the flows that a port may begin may be begun to it, by all hosts together, and manyRouted by those
	// that reach it by way of the node. One guest cannot use up what others may. A neighbour is told by its MAC, and the others,
	// which have that of the node, by their addresses.
	manyHosts  = 8
	manyRouted = 4
)

// reg is the first of the kernel's sixteen registers of four bytes (NFT_REG32_00).
const reg = unix.NFT_REG32_00

// way is a direction past the port, with the places of both ends in a packet's headers.
type way struct {
	direction           seedbed.Direction
	index, name         expr.MetaKey
	local4, remote4     uint32
	local6, remote6     uint32
	localPort, peerPort uint32
	peerMAC             uint32
}

var ways = []way{
	{seedbed.DirectionOut, expr.MetaKeyIIF, expr.MetaKeyIIFNAME, 12, 16, 8, 24, 0, 2, 0},
	{seedbed.DirectionIn, expr.MetaKeyOIF, expr.MetaKeyOIFNAME, 16, 12, 24, 8, 2, 0, 6},
}

// family is a version of IP.
type family struct {
	name  string // the end of the names of its sets and chains
	addr  nftables.SetDatatype
	icmp  byte
	echos [2]byte // types of ICMP: the request, the answer
	// errors are the types of ICMP that carry the beginning of another packet.
	errors []byte
	// innerProtocol, innerSource, innerTarget and innerPorts are places in that packet.
	innerProtocol, innerSource, innerTarget, innerPorts uint32
}

var families = []family{
	{"4", nftables.TypeIPAddr, unix.IPPROTO_ICMP, [2]byte{8, 0}, []byte{3, 11, 12}, 9, 12, 16, 20},
	{"6", nftables.TypeIP6Addr, unix.IPPROTO_ICMPV6, [2]byte{128, 129}, []byte{1, 2, 3, 4}, 6, 8, 24, 40},
}

func (w way) local(f family) uint32 {
	if f.name == "4" {
		return w.local4
	}
	return w.local6
}

func (w way) remote(f family) uint32 {
	if f.name == "4" {
		return w.remote4
	}
	return w.remote6
}

func groupSets() []set {
	name, mac, mark, index := nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeMark, nftables.TypeIFIndex
	proto, service := nftables.TypeInetProto, nftables.TypeInetService
	sets := []set{
		// The ports on which the rules of security groups decide.
		{name: "grouped", key: name, of: func(p *plan, t *port) (string, string, bool) {
			return string(t.tap[:]), "", p.groups.restricted(t.class)
		}},
		// The classes of guests, by MAC.
		{name: "members", key: mac, value: mark, of: func(_ *plan, t *port) (string, string, bool) {
			return string(t.mac[:]), string(markValue(t.class)), t.class != 0
		}, peer: func(_ *plan, q *peer) (string, string, bool) {
			return string(q.mac[:]), string(markValue(q.class)), q.class != 0
		}},
		// The members on other nodes, and the guests of overlays, by the uplink that they come from.
		{name: "peers", key: nftables.MustConcatSetType(name, mac), concat: true, peer: func(p *plan, q *peer) (string, string, bool) {
			port := p.uplinks[q.bridge].port
			return string(ifname(port)) + pad(string(q.mac[:])), "", port != ""
		}},
		{name: "flow-rates-out", key: name, size: comersSize, timeout: sourceTime},
		{name: "flow-rates-in", key: name, size: comersSize, timeout: sourceTime},
		{name: "flow-rates-from", key: nftables.MustConcatSetType(name, mac), concat: true, size: comersSize, timeout: sourceTime},
		// The MAC of the node, by the ports of "grouped".
		{name: routerMACs, key: nftables.MustConcatSetType(name, mac), concat: true, of: func(p *plan, t *port) (string, string, bool) {
			m := p.networks[t.network].MAC
			return string(t.tap[:]) + pad(string(m[:])), "", p.groups.restricted(t.class)
		}},
		{name: "fragmented-rates", key: name, size: comersSize, timeout: sourceTime},
	}
	for i := range seedbed.MaxSecurityGroups {
		sets = append(sets, set{name: slotName(i), key: name, value: mark, of: func(p *plan, t *port) (string, string, bool) {
			n := p.groups.slot(t.class, i)
			return string(t.tap[:]), string(markValue(n)), n != 0 && p.groups.restricted(t.class)
		}})
		sets = append(sets, set{name: peerSlotName(i), key: mark, value: mark,
			fixed: func(p *plan, add func(key, value string)) { p.groups.peerGroups(i, add) }})
	}
	for _, w := range ways {
		sets = append(sets, set{name: string(w.direction) + "-peers", key: nftables.MustConcatSetType(mark, mark, proto, service),
			concat: true, interval: true, fixed: func(p *plan, add func(key, value string)) { p.groups.peerRules(w.direction, add) }})
	}
	for _, f := range families {
		for _, w := range ways {
			sets = append(sets, set{name: string(w.direction) + f.name, key: nftables.MustConcatSetType(mark, proto, service, f.addr),
				concat: true, interval: true,
				fixed: func(p *plan, add func(key, value string)) { p.groups.prefixRules(w.direction, int(f.addr.Bytes), add) }})
		}
		flows := func(of string, last ...nftables.SetDatatype) set {
			key := append([]nftables.SetDatatype{index, f.addr, f.addr}, last...)
			return set{name: "flows-" + of + f.name, key: nftables.MustConcatSetType(key...), concat: true, size: flowsSize, timeout: newFlowTime}
		}
		sets = append(sets, set{name: routedRates(f), key: nftables.MustConcatSetType(name, f.addr), concat: true, size: comersSize,
			timeout: sourceTime})
		sets = append(sets, flows("tcp", service, service), flows("udp", service, service), flows("echo", service), flows("other", proto),
			set{name: "fragmented" + f.name, key: nftables.MustConcatSetType(index, f.addr, f.addr, mark), concat: true,
				size: fragmentsSize, timeout: fragmentTime})
	}
	return sets
}

// routerMACs is the set of the MACs that what the node itself sends to a port has, also what it forwards.
const routerMACs = "routers"

// routedRates is the set of the hosts that reach a port by way of the node.
func routedRates(f family) string { return "flow-rates-routed" + f.name }

// groupChains returns the chains that enforce security groups. rate is how many new flows a port may begin each second,
// and burst how many at once.
func groupChains(rate, burst uint32) []chain {
	hooks := map[seedbed.Direction]*nftables.ChainHook{
		seedbed.DirectionOut: nftables.ChainHookPrerouting, seedbed.DirectionIn: nftables.ChainHookPostrouting}
	var chains []chain
	for _, w := range ways {
		d := string(w.direction)
		first := []rule{
			{"a port whose groups allow everything, or no guest's", cat(notIn(w.name, "grouped"), accept())},
			{"ARP", cat(ethertype(unix.ETH_P_ARP), accept())},
			{"IPv4", cat(ethertype(unix.ETH_P_IP), gotoChain(d+"4"))},
			{"IPv6", cat(ethertype(unix.ETH_P_IPV6), gotoChain(d+"6"))},
			{"other protocols", drop()},
		}
		chains = append(chains, chain{name: "groups-" + d, typ: nftables.ChainTypeFilter, hook: hooks[w.direction], prio: -290, rules: first})
		chains = append(chains, chain{name: d + "4-services", rules: service4Rules(w)})
		for _, f := range families {
			chains = append(chains, chain{name: d + f.name, rules: append(serviceRules(w, f), protocolRules(w, f)...)})
			for _, k := range flowKinds(w, f) {
				chains = append(chains,
					chain{name: d + f.name + "-" + k.name, rules: flowRules(w, f, k)},
					chain{name: d + f.name + "-" + k.name + "-new", rules: newFlowRules(w, f, k, rate, burst)})
			}
			chains = append(chains, chain{name: d + f.name + "-pass", rules: passRules(w, f)})
		}
		for _, t := range targets {
			chains = append(chains, chain{name: peersChain(w, t), rules: peersRules(w, t)})
		}
	}
	return chains
}

// protocolRules pass later fragments of what has passed, and send the rest to the chain of its kind.
func protocolRules(w way, f family) []rule {
	chain := string(w.direction) + f.name
	rules := []rule{
		{"a later fragment of a packet that passed", cat(laterFragment(f), fragmentKey(w, f),
			exprs{&expr.Lookup{SourceRegister: reg, SetName: "fragmented" + f.name}}, accept())},
		{"a later fragment", cat(laterFragment(f), drop())},
		{"TCP", cat(l4proto(unix.IPPROTO_TCP), gotoChain(chain+"-tcp"))},
		{"UDP", cat(l4proto(unix.IPPROTO_UDP), gotoChain(chain+"-udp"))},
	}
	for _, e := range f.errors {
		for _, k := range flowKinds(w, f)[:3] {
			rules = append(rules, rule{"an error about a flow", cat(l4proto(f.icmp), transport(0, e), k.inner,
				exprs{&expr.Lookup{SourceRegister: reg, SetName: k.set}}, accept())})
		}
	}
	return append(rules,
		rule{"echo request", cat(l4proto(f.icmp), transport(0, f.echos[0]), gotoChain(chain+"-echo"))},
		rule{"echo reply", cat(l4proto(f.icmp), transport(0, f.echos[1]), gotoChain(chain+"-echo"))},
		rule{"ICMP", cat(l4proto(f.icmp), gotoChain(chain+"-icmp"))},
		rule{"other protocols", gotoChain(chain + "-other")})
}

// flowKey loads the port and both addresses; what follows is loaded into the next register.
func flowKey(w way, f family) exprs {
	return exprs{&expr.Meta{Key: w.index, Register: reg},
		load(expr.PayloadBaseNetworkHeader, reg+1, w.local(f), f.addr.Bytes),
		load(expr.PayloadBaseNetworkHeader, reg+1+f.addr.Bytes/4, w.remote(f), f.addr.Bytes)}
}

// flowKind is a kind of protocol whose flows have a name of their own.
type flowKind struct {
	name string
	set  string // of flows; none if answers cannot be told
	key  exprs  // of a packet's flow
	time time.Duration
	// inner loads the key of a flow from its packet in an ICMP error.
	inner exprs
	// target is what a rule's ports are compared with.
	target target
}

// target is a part of a packet: the ports of TCP and UDP, the type and code of ICMP, and nothing in other protocols.
type target struct {
	name string
	load func(register uint32) exprs
}

var (
	portTarget = target{"ports", func(register uint32) exprs { return exprs{load(expr.PayloadBaseTransportHeader, register, 2, 2)} }}
	icmpTarget = target{"icmp", func(register uint32) exprs { return exprs{load(expr.PayloadBaseTransportHeader, register, 0, 2)} }}
	noTarget   = target{"other", func(register uint32) exprs {
		return exprs{&expr.Immediate{Register: register, Data: []byte{0, 0}}}
	}}
	targets = []target{portTarget, icmpTarget, noTarget}
)

func flowKinds(w way, f family) []flowKind {
	next := reg + 1 + 2*f.addr.Bytes/4
	at := func(register, offset uint32) expr.Any {
		return load(expr.PayloadBaseTransportHeader, register, offset, 2)
	}
	// The packet in an ICMP error went the other way: its source is the receiver of the error.
	const inner = 8
	source, target := inner+f.innerSource, inner+f.innerTarget
	innerLocal, innerRemote, localPort, peerPort := source, target, uint32(0), uint32(2)
	if w.direction == seedbed.DirectionOut {
		innerLocal, innerRemote, localPort, peerPort = target, source, 2, 0
	}
	within := func(proto byte, last ...expr.Any) exprs {
		return append(exprs{load(expr.PayloadBaseTransportHeader, 1, inner+f.innerProtocol, 1), compare(expr.CmpOpEq, proto),
			&expr.Meta{Key: w.index, Register: reg},
			load(expr.PayloadBaseTransportHeader, reg+1, innerLocal, f.addr.Bytes),
			load(expr.PayloadBaseTransportHeader, reg+1+f.addr.Bytes/4, innerRemote, f.addr.Bytes)}, last...)
	}
	ports := cat(flowKey(w, f), exprs{at(next, w.localPort), at(next+1, w.peerPort)})
	innerPorts := []expr.Any{at(next, inner+f.innerPorts+localPort), at(next+1, inner+f.innerPorts+peerPort)}
	const echoID = 4
	return []flowKind{
		{"tcp", "flows-tcp" + f.name, ports, tcpFlowTime, within(unix.IPPROTO_TCP, innerPorts...), portTarget},
		{"udp", "flows-udp" + f.name, ports, otherFlowTime, within(unix.IPPROTO_UDP, innerPorts...), portTarget},
		{"echo", "flows-echo" + f.name, cat(flowKey(w, f), exprs{at(next, echoID)}), otherFlowTime,
			within(f.icmp, at(next, inner+f.innerPorts+echoID)), icmpTarget},
		{"icmp", "", nil, 0, nil, icmpTarget},
		{"other", "flows-other" + f.name, cat(flowKey(w, f), exprs{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: next}}), otherFlowTime,
			nil, noTarget},
	}
}

// flowRules decide on a packet: it belongs to a flow, or a rule of one of the port's groups allows it.
func flowRules(w way, f family, k flowKind) []rule {
	d := string(w.direction)
	chain := d + f.name
	var rules []rule
	if k.set != "" {
		rules = append(rules, rule{"of a flow", cat(k.key, exprs{
			&expr.Lookup{SourceRegister: reg, SetName: k.set},
			&expr.Dynset{SrcRegKey: reg, SetName: k.set, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: k.time},
		}, gotoChain(chain+"-pass"))})
	}
	allowed := gotoChain(chain + "-" + k.name + "-new")
	rules = append(rules, rule{"no group yet", noNumbers()})
	for i := range seedbed.MaxSecurityGroups {
		rules = append(rules, rule{"allowed by " + slotName(i), cat(groupOf(w, i), exprs{&expr.Meta{Key: groupAt, Register: reg},
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg + 1}}, k.target.load(reg+2),
			exprs{load(expr.PayloadBaseNetworkHeader, reg+3, w.remote(f), f.addr.Bytes),
				&expr.Lookup{SourceRegister: reg, SetName: chain}}, allowed)})
	}
	return append(rules,
		rule{"the rules that name groups", jumpChain(peersChain(w, k.target))},
		rule{"allowed with a member of a group", allowed})
}

func peersChain(w way, t target) string { return string(w.direction) + "-peers-" + t.name }

// peersRules return if a rule that names a group allows the packet: each group of the port is asked about each group of the peer.
// They drop the packet otherwise.
func peersRules(w way, t target) (rules []rule) {
	none := make([]byte, 4)
	class := exprs{&expr.Immediate{Register: 1, Data: none}, setMeta(groupAt), load(expr.PayloadBaseLLHeader, 1, w.peerMAC, 6),
		&expr.Lookup{SourceRegister: 1, SetName: "members", DestRegister: 1, IsDestRegSet: true}, setMeta(peerAt)}
	for j := range seedbed.MaxSecurityGroups {
		rules = append(rules,
			rule{"the class of the peer", class},
			rule{peerSlotName(j), exprs{&expr.Meta{Key: peerAt, Register: 1},
				&expr.Lookup{SourceRegister: 1, SetName: peerSlotName(j), DestRegister: 1, IsDestRegSet: true}, setMeta(groupAt)}},
			// Linux 6.1 asks no map whether it has a key.
			rule{"no " + peerSlotName(j), cat(exprs{&expr.Meta{Key: groupAt, Register: 1}, compare(expr.CmpOpEq, none...)}, drop())},
			rule{"the group of the peer", exprs{&expr.Meta{Key: groupAt, Register: 1}, setMeta(peerAt)}})
		for i := range seedbed.MaxSecurityGroups {
			rules = append(rules, rule{"allowed by " + slotName(i), cat(groupOf(w, i), exprs{&expr.Meta{Key: groupAt, Register: reg},
				&expr.Meta{Key: peerAt, Register: reg + 1}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg + 2}}, t.load(reg+3),
				exprs{&expr.Lookup{SourceRegister: reg, SetName: string(w.direction) + "-peers"},
					&expr.Verdict{Kind: expr.VerdictReturn}})})
		}
	}
	return append(rules, rule{"no rule of a security group", drop()})
}

// groupOf notes the number of the i-th group of the port. It does not match if there is none.
func groupOf(w way, i int) exprs {
	return exprs{&expr.Meta{Key: w.name, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: slotName(i), DestRegister: 1, IsDestRegSet: true}, setMeta(groupAt)}
}

// What the rules note of a packet that belongs to no flow: the number of a group, and the class of the peer or one of its groups. nft(8) of
// Debian 12 cannot list rules that look up what another lookup returned, so the numbers go by way of the packet, which
// has neither mark nor priority before or after.
const (
	groupAt = expr.MetaKeyMARK
	peerAt  = expr.MetaKeyPRIORITY
)

// noNumbers takes both numbers away from the packet.
func noNumbers() exprs {
	zero := &expr.Immediate{Register: 1, Data: make([]byte, 4)}
	return exprs{zero, setMeta(groupAt), zero, setMeta(peerAt)}
}

// newFlowRules note the flow of a packet that a rule allows.
func newFlowRules(w way, f family, k flowKind, rate, burst uint32) []rule {
	pass := gotoChain(string(w.direction) + f.name + "-pass")
	rules := []rule{{"as it came", noNumbers()}}
	if k.set == "" {
		return append(rules, rule{"allowed", pass})
	}
	tooMany := func(set string, times uint32, by ...expr.Any) exprs {
		return cat(tooFastAt(w.name, set, uint64(times*rate), expr.LimitTimeSecond, times*burst, by...), drop())
	}
	if w.direction == seedbed.DirectionOut {
		rules = append(rules, rule{"too many new flows", tooMany("flow-rates-out", 1)})
	} else {
		routed := pairOf(w.name, etherSaddr(), routerMACs)
		neighbour := exprs{&expr.Meta{Key: w.name, Register: 1}, etherSaddr(),
			&expr.Lookup{SourceRegister: 1, SetName: routerMACs, Invert: true}}
		remote := load(expr.PayloadBaseNetworkHeader, 2, w.remote(f), f.addr.Bytes)
		rules = append(rules, rule{"too many new flows from one neighbour", cat(neighbour, tooMany("flow-rates-from", 1, etherSaddr()))},
			rule{"too many new flows from one host", cat(routed, tooMany(routedRates(f), 1, remote))},
			rule{"too many new flows by way of the node", cat(routed, tooMany("flow-rates-from", manyRouted, etherSaddr()))},
			rule{"too many new flows from all", tooMany("flow-rates-in", manyHosts)})
	}
	return append(rules, []rule{
		{"a new flow", cat(k.key, note(k.set, newFlowTime), pass)},
		{"no room for another flow", drop()},
	}...)
}

// note adds the key in the registers to a set, for some time. It does not match if the set is full.
func note(set string, timeout time.Duration) exprs {
	return exprs{&expr.Dynset{SrcRegKey: reg, SetName: set, Operation: unix.NFT_DYNSET_OP_ADD, Timeout: timeout}}
}
