package netcfg

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DefaultConnections is how many connections of one NIC the node tracks unless Options says another
// number.
const DefaultConnections = 4096

// maxConnections is the largest bound. The kernel goes through the connections of a NIC when it
// begins one.
const maxConnections = 1 << 20

// nicsSize bounds the NICs whose connections are counted. It is larger than any node needs.
const nicsSize = 1 << 18

// connections returns the set of NICs with tracked connections, by bridge and MAC. The bridge table
// has proved the MAC. A NIC leaves the set with its last connection.
func connections() set {
	return set{name: "connections", key: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeEtherAddr), concat: true, size: nicsSize}
}

// tooManyConnections matches the first packet of a tracked connection that is one too many for its
// NIC. The node has one table of connections: without a bound, one guest could fill it, and neither
// the node nor any other guest could begin a connection.
func tooManyConnections(p *plan) exprs {
	return cat(in(expr.MetaKeyIIFNAME, "bridges"), ctState(expr.CtStateBitNEW),
		exprs{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, etherSaddr(),
			&expr.Dynset{SrcRegKey: 1, SetName: "connections", Operation: unix.NFT_DYNSET_OP_ADD,
				Exprs: []expr.Any{&expr.Connlimit{Count: p.connections, Flags: expr.NFT_CONNLIMIT_F_INV}}}})
}
