package netcfg

import (
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A guest chooses its IPv6 addresses, and where its network lets it the IPv4 ones, and the node records each that it
// hears from in its neighbour tables, which all guests share. So a port may use sourceBurst addresses towards the node,
// and sourceRate more per minute; each is remembered for sourceTime. Traffic between guests is not bounded.
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
		{name: "sources4", key: nftables.MustConcatSetType(name, nftables.TypeIPAddr), concat: true, size: sourcesSize, timeout: sourceTime},
		{name: "newcomers", key: name, size: comersSize, timeout: sourceTime},
	}
}

// sourceRules decide on what a guest sends to the node from an address that it may choose. The set holds those that it
// used. What comes from an address that cannot be remembered is dropped.
func sourceRules(set string, source *expr.Payload) []rule {
	from := exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, source}
	return []rule{
		{"an address that was used", cat(from, exprs{&expr.Lookup{SourceRegister: 1, SetName: set}}, accept())},
		{"too many addresses", cat(tooFast("newcomers", sourceRate, expr.LimitTimeMinute, sourceBurst), drop())},
		{"another address", cat(from, exprs{&expr.Dynset{SrcRegKey: 1, SetName: set,
			Operation: unix.NFT_DYNSET_OP_ADD, Timeout: sourceTime}}, accept())},
		{"no room for another address", drop()},
	}
}
