package netcfg

import (
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A guest chooses its IPv6 addresses, and where its network lets it the IPv4 ones, and the node records each that it
// hears from in its neighbour tables, which all guests share. So a port may use sourceBurst addresses towards the node,
// and sourceRate more per minute; each is remembered for sourceTime. Traffic between guests is not bounded.
//
// A guest of a bridged network whose uplink is a bridge of the node reaches the node there as well. What it sends to that
// bridge itself comes by the far end of the pair of interfaces, and its MAC says whose it is: the guest's port passed no other.
const (
	sourceBurst = 16
	sourceRate  = 4
	sourceTime  = 5 * time.Minute
	// sourcesSize bounds the remembered addresses of all ports, and comersSize the number of ports
	// whose rate is tracked. Both are larger than any node needs.
	sourcesSize = 1 << 20
	comersSize  = 1 << 18
)

// wireEnds is the set of the ends of those pairs, ports of the node's bridges.
const wireEnds = "wire-ends"

func sourceSets() []set {
	name, ip, mac := nftables.TypeIFName, nftables.TypeIP6Addr, nftables.TypeEtherAddr
	return []set{
		{name: wireEnds, key: name, fixed: func(p *plan, add func(key, value string)) {
			for _, u := range p.uplinks { // one that is kept as it is does not say what it is
				if strings.HasPrefix(u.port, uplinkPrefix) && (u.made == madePair || u.made == "") {
					add(string(ifname(u.peer())), "")
				}
			}
		}},
		{name: "wire-sources", key: nftables.MustConcatSetType(ip, mac), concat: true, size: sourcesSize, timeout: sourceTime},
		{name: "wire-sources4", key: nftables.MustConcatSetType(nftables.TypeIPAddr, mac), concat: true, size: sourcesSize, timeout: sourceTime},
		{name: "wire-newcomers", key: mac, size: comersSize, timeout: sourceTime},
		{name: "sources", key: nftables.MustConcatSetType(name, ip), concat: true, size: sourcesSize, timeout: sourceTime},
		{name: "sources4", key: nftables.MustConcatSetType(name, nftables.TypeIPAddr), concat: true, size: sourcesSize, timeout: sourceTime},
		{name: "newcomers", key: name, size: comersSize, timeout: sourceTime},
	}
}

// sourceRules decide on what a guest sends to the node from an address that it may choose. The set holds those that it
// used.
func sourceRules(set string, source *expr.Payload) []rule {
	port := exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}}
	return newcomerRules(set, cat(port, exprs{source}), "newcomers", port)
}

// wireSourceRules are sourceRules for what comes by the bridge of an uplink. The source, of IPv4 or IPv6, is at an offset.
func wireSourceRules(set string, at, size uint32) []rule {
	behind := uint32(2)
	if size == 4 { // the parts of a key have no gap: NFT_REG32_01 of linux/netfilter/nf_tables.h is the second quarter of register 1
		behind = 9
	}
	return newcomerRules(set, exprs{load(expr.PayloadBaseNetworkHeader, 1, at, size), load(expr.PayloadBaseLLHeader, behind, 6, 6)},
		"wire-newcomers", exprs{load(expr.PayloadBaseLLHeader, 1, 6, 6)})
}

// newcomerRules let pass what is from an address in the set, and put others there unless they are too many. from loads the key
// of the set, and comer that of the set of those whose rate is tracked. What comes from an address that cannot be remembered is dropped.
func newcomerRules(set string, from exprs, comers string, comer exprs) []rule {
	return []rule{
		{"an address that was used", cat(from, exprs{&expr.Lookup{SourceRegister: 1, SetName: set}}, accept())},
		{"too many addresses", cat(tooFastBy(comer, comers, sourceRate, expr.LimitTimeMinute, sourceBurst), drop())},
		{"another address", cat(from, exprs{&expr.Dynset{SrcRegKey: 1, SetName: set,
			Operation: unix.NFT_DYNSET_OP_ADD, Timeout: sourceTime}}, accept())},
		{"no room for another address", drop()},
	}
}
