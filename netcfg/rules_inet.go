package netcfg

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"seedbed"
)

var zeroAddr = netip.IPv4Unspecified()

func markValue(m uint32) []byte { return binary.NativeEndian.AppendUint32(nil, m) }

// inetTable protects the host from its guests and lets their traffic out. It
// decides only about packets from or to a managed bridge.
func inetTable(p *plan) *table {
	ports, bridges := map[string]string{}, map[string]string{}
	for _, t := range p.ports {
		ports[string(ifname(t.Tap))] = ""
	}
	for _, n := range p.networks {
		bridges[string(ifname(n.Bridge))] = ""
	}
	for _, b := range p.closed {
		bridges[string(ifname(b))] = ""
	}
	filter, nat := nftables.ChainTypeFilter, nftables.ChainTypeNAT
	return &table{
		family: nftables.TableFamilyINet,
		sets: []set{
			{name: "ports", key: nftables.TypeIFName, elements: ports},
			{name: "bridges", key: nftables.TypeIFName, elements: bridges},
		},
		chains: []chain{
			{name: "input", typ: filter, hook: nftables.ChainHookInput, prio: 0, rules: inputRules(p)},
			{name: "forward", typ: filter, hook: nftables.ChainHookForward, prio: 0, rules: forwardRules(p)},
			{name: "dnat", typ: nat, hook: nftables.ChainHookPrerouting, prio: -100, rules: dnatRules(p)},
			{name: "snat", typ: nat, hook: nftables.ChainHookPostrouting, prio: 100, rules: snatRules(p)},
		},
	}
}

const known = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED

// statusDNAT is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
const statusDNAT = 1 << 5

// inputRules: guests reach the host's ping, DHCP, metadata, and those of
// their own DNS servers that are the host's. A port outside its bridge reaches nothing.
func inputRules(p *plan) []rule {
	const udp, tcp = unix.IPPROTO_UDP, unix.IPPROTO_TCP
	metadata := cat(ipv4(), ipDaddr(MetadataAddr), dport(tcp, p.metadataPort))
	if p.metadataPort != 80 {
		metadata = cat(metadata, ctStatus(statusDNAT)) // only what was marked on its way to port 80
	}
	rules := []rule{
		{"a guest's port without a bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
		{"past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
		{"not from a managed bridge", cat(notIn(expr.MetaKeyIIFNAME, "bridges"), accept())},
		{"answers", cat(ctState(known), accept())},
		{"IPv6 to the host", cat(not(ipv4()), drop())},
		{"ping", cat(icmp(8), accept())},
		{"DHCP", cat(dport(udp, 67), accept())},
		{"metadata", cat(metadata, accept())},
	}
	for _, n := range p.networks {
		for _, d := range n.DNS {
			from := cat(iifname(n.Bridge), ipv4(), ipDaddr(d))
			rules = append(rules,
				rule{"DNS of " + n.Name, cat(from, dport(udp, 53), accept())},
				rule{"DNS over TCP of " + n.Name, cat(from, dport(tcp, 53), accept())})
		}
	}
	return append(rules, rule{"the host is closed to guests", drop()})
}

// forwardRules: a network with NAT reaches the world, and nothing reaches a
// network unasked. Between two guests of one bridge the rules see packets only
// where br_netfilter hands them over.
func forwardRules(p *plan) []rule {
	rules := []rule{
		{"a guest's port without a bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
		{"past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
		{"not ours", cat(notIn(expr.MetaKeyIIFNAME, "bridges"), notIn(expr.MetaKeyOIFNAME, "bridges"), accept())},
	}
	for _, n := range p.networks {
		rules = append(rules, rule{"within " + n.Name, cat(iifname(n.Bridge), oifname(n.Bridge), accept())})
	}
	rules = append(rules,
		rule{"answers", cat(ctState(known), accept())},
		rule{"what conntrack cannot place", cat(ctState(expr.CtStateBitINVALID), drop())})
	for _, n := range p.networks {
		if n.NAT {
			rules = append(rules, rule{"out of " + n.Name, cat(iifname(n.Bridge), ipv4(), ipSaddrIn(n.Prefix),
				notIn(expr.MetaKeyOIFNAME, "bridges"), accept())})
		}
	}
	return append(rules, rule{"everything else", drop()})
}

// dnatRules send guests' metadata requests to the port that the server has.
func dnatRules(p *plan) []rule {
	if p.metadataPort == 80 {
		return nil
	}
	to := exprs{
		&expr.Immediate{Register: 1, Data: MetadataAddr.AsSlice()},
		&expr.Immediate{Register: 2, Data: be16(p.metadataPort)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2, Specified: true},
	}
	return []rule{{"metadata on another port", cat(in(expr.MetaKeyIIFNAME, "bridges"), ipv4(),
		ipDaddr(MetadataAddr), dport(unix.IPPROTO_TCP, 80), to)}}
}

func snatRules(p *plan) []rule {
	var rules []rule
	for _, n := range p.networks {
		if n.NAT {
			rules = append(rules, rule{"NAT of " + n.Name, masquerade(n)})
		}
	}
	return rules
}

func masquerade(n seedbed.Network) exprs {
	return cat(ipv4(), ipSaddrIn(n.Prefix), not(ipSaddr(n.Gateway)), notIn(expr.MetaKeyOIFNAME, "bridges"), exprs{&expr.Masq{}})
}
