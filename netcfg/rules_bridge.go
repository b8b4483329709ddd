package netcfg

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The places of what the rules look at, in bytes from the start of the header
// (IEEE 802.3, RFC 826, RFC 791, RFC 2131).
func etherSaddr() *expr.Payload { return load(expr.PayloadBaseLLHeader, 2, 6, 6) }
func arpSha() *expr.Payload     { return load(expr.PayloadBaseNetworkHeader, 2, 8, 6) }
func arpSpa() *expr.Payload     { return load(expr.PayloadBaseNetworkHeader, 2, 14, 4) }
func arpTpa() *expr.Payload     { return load(expr.PayloadBaseNetworkHeader, 2, 24, 4) }
func ipSource() *expr.Payload   { return load(expr.PayloadBaseNetworkHeader, 2, 12, 4) }
func dhcpChaddr() *expr.Payload { return load(expr.PayloadBaseTransportHeader, 2, 8+28, 6) }

// bridgeTable proves who sent a frame: nothing leaves a guest's port but
// frames with the port's own MAC and IPv4 address, and those to the metadata
// address carry the port's mark. The rules are the same on every host; who
// may send what is in the sets.
//
// A guest's interface that is not in the sets, or not any more, is closed. It is
// told by its name, "sb" and a digit, so that somebody else's port of such a
// name is closed too, on a bridge of their own as well: which bridge a port
// belongs to cannot be asked for on every kernel (nft_meta_bridge). Other ports
// are left alone. The bridges themselves may have any name, since what the host
// sends through one does not pass prerouting.
func bridgeTable(p *plan) *table {
	ports, who := map[string]string{}, map[string]string{}
	addrs, gates := map[string]string{}, map[string]string{}
	macs := map[string]string{}
	for _, n := range p.networks {
		macs[n.Bridge] = string(n.MAC[:])
	}
	for _, t := range p.ports {
		ports[string(ifname(t.Tap))] = ""
		who[string(macKey(t.Tap, t.MAC))] = string(markValue(t.Mark))
		addrs[string(addrKey(t.Tap, t.Addr))] = ""
		gates[string(ifname(t.Tap))] = macs[t.Bridge]
	}
	name, mac, ip := nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr
	return &table{
		family: nftables.TableFamilyBridge,
		sets: []set{
			{name: "ports", key: name, elements: ports},
			{name: "who", key: nftables.MustConcatSetType(name, mac), concat: true, value: nftables.TypeMark, elements: who},
			{name: "addrs", key: nftables.MustConcatSetType(name, ip), concat: true, elements: addrs},
			{name: "gates", key: name, value: mac, elements: gates},
		},
		chains: []chain{
			{name: "pre", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting, prio: -300, rules: preRules()},
			{name: "arp", rules: arpRules()},
			{name: "ip6", rules: ip6Rules()},
			{name: "local", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookInput, prio: -300, rules: localRules()},
		},
	}
}

func preRules() []rule {
	const udp, tcp = unix.IPPROTO_UDP, unix.IPPROTO_TCP
	return []rule{
		{"a guest's port that is not listed", cat(iifGuest(), notIn(expr.MetaKeyIIFNAME, "ports"), drop())},
		{"not a guest's port", cat(notIn(expr.MetaKeyIIFNAME, "ports"), accept())},
		{"another's MAC", cat(notPair(etherSaddr(), "who"), drop())},
		{"ARP", cat(ethertype(unix.ETH_P_ARP), gotoChain("arp"))},
		{"IPv6", cat(ethertype(unix.ETH_P_IPV6), gotoChain("ip6"))},
		{"VLAN tags and other protocols", cat(not(ethertype(unix.ETH_P_IP)), drop())},
		{"a guest as DHCP server", cat(sport(udp, 67), drop())},
		{"DHCP for itself, no address yet", cat(dport(udp, 67), ipSaddr(zeroAddr), pair(dhcpChaddr(), "who"), accept())},
		{"DHCP for itself", cat(dport(udp, 67), pair(dhcpChaddr(), "who"), pair(ipSource(), "addrs"), accept())},
		{"DHCP for another", cat(dport(udp, 67), drop())},
		{"another's address", cat(notPair(ipSource(), "addrs"), drop())},
		{"ICMP redirects", cat(icmp(5), drop())},
		{"fragments to the metadata address", cat(ipDaddr(MetadataAddr), ipFragment(), drop())},
		{"metadata: mark, and off the wire", cat(ipDaddr(MetadataAddr), dport(tcp, 80), markAndTake())},
	}
}

// markAndTake puts the port's mark on the packet and makes the frame the
// bridge's own, whatever gateway the guest sent it to.
func markAndTake() exprs {
	iif := &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}
	return exprs{
		iif, etherSaddr(),
		&expr.Lookup{SourceRegister: 1, SetName: "who", DestRegister: 3, IsDestRegSet: true},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 3},
		iif,
		&expr.Lookup{SourceRegister: 1, SetName: "gates", DestRegister: 3, IsDestRegSet: true},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 3, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 6},
		&expr.Immediate{Register: 3, Data: []byte{unix.PACKET_HOST}},
		&expr.Meta{Key: expr.MetaKeyPKTTYPE, SourceRegister: true, Register: 3},
	}
}

// arpRules let a guest speak of its own address alone, so that nobody can
// claim the gateway, the metadata address or a neighbour's. A probe (RFC 5227)
// has no sender address; it too may only ask for the guest's own.
func arpRules() []rule {
	return []rule{
		{"ARP of another kind than IPv4 on Ethernet", cat(not(network(0, 0, 1, 8, 0, 6, 4)), drop())},
		{"ARP with another's MAC", cat(notPair(arpSha(), "who"), drop())},
		{"ARP from its own address", cat(pair(arpSpa(), "addrs"), accept())},
		{"ARP probe of its own address", cat(network(14, 0, 0, 0, 0), pair(arpTpa(), "addrs"), accept())},
		{"ARP for another's address", drop()},
	}
}

// ip6Rules keep guests from configuring their neighbours. Between themselves
// they may use link-local addresses.
func ip6Rules() []rule {
	return []rule{
		{"router advertisements", cat(icmp6(134), drop())},
		{"ICMPv6 redirects", cat(icmp6(137), drop())},
		{"a guest as DHCPv6 server", cat(sport(unix.IPPROTO_UDP, 547), drop())},
	}
}

// localRules close the way past the bridge: frames to 01:80:c2:00:00:0X skip
// prerouting and reach the host as if the port stood alone (br_handle_frame).
// Those to :0e skip this as well; the inet table stops what they carry.
func localRules() []rule {
	return []rule{
		{"link-local group addresses", cat(in(expr.MetaKeyIIFNAME, "ports"), toGroup(), drop())},
		{"link-local group addresses from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
	}
}
