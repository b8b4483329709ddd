package netcfg

import (
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A guest chooses its IPv6 addresses, and the node records each that it hears from in its neighbour
// table, which all guests share. So a port may use sourceBurst addresses towards the node, and
// sourceRate more per minute; each is remembered for sourceTime. Traffic between guests is not
// bounded.
const (
	sourceBurst = 16
	sourceRate  = 4
	sourceTime  = 5 * time.Minute
	// sourcesSize bounds the remembered addresses of all ports, and comersSize the number of ports
	// whose rate is tracked. Both are larger than any node needs.
	sourcesSize = 1 << 20
	comersSize  = 1 << 18
)

func sourceSets() []set {
	name, ip := nftables.TypeIFName, nftables.TypeIP6Addr
	return []set{
		{name: "sources", key: nftables.MustConcatSetType(name, ip), concat: true, size: sourcesSize, timeout: sourceTime},
		{name: "newcomers", key: name, size: comersSize, timeout: sourceTime},
	}
}

// sourceRules decide on a guest's IPv6 packet to the node. A packet from an address that cannot be
// remembered is dropped.
func sourceRules() []rule {
	from := exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, load(expr.PayloadBaseNetworkHeader, 2, 8, 16)}
	return []rule{
		{"an IPv6 address that was used", cat(from, exprs{&expr.Lookup{SourceRegister: 1, SetName: "sources"}}, accept())},
		{"too many IPv6 addresses", cat(tooFast("newcomers", sourceRate, expr.LimitTimeMinute, sourceBurst), drop())},
		{"another IPv6 address", cat(from, exprs{&expr.Dynset{SrcRegKey: 1, SetName: "sources",
			Operation: unix.NFT_DYNSET_OP_ADD, Timeout: sourceTime}}, accept())},
		{"no room for another IPv6 address", drop()},
	}
}
