package netcfg

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// What a port may send of what one program of the node answers for a whole bridge, in frames at once
// and frames per second after that. It is more than a client sends, and too little to keep the
// program from the other ports.
const (
	dhcpBurst = 32
	dhcpRate  = 4
	// The metadata service allows an instance 4,096 requests and 2,000 per second, each of which may
	// be on a connection of its own. The burst fits into the queue of the socket.
	callBurst = 1024
	callRate  = 2000
	// The resolver allows an address as many; the time server has the rest. The burst fits into the queue of the socket.
	queryBurst = 256
	queryRate  = 1024
	// What goes to all guests of an overlay goes to each other node that has one.
	copyBurst = 256
	copyRate  = 128
)

// rateSets returns the sets of ports, and of guests of overlays by the VXLAN and their MACs, whose rate is tracked.
func rateSets() []set {
	ports := func(name string) set {
		return set{name: name, key: nftables.TypeIFName, size: comersSize, timeout: sourceTime}
	}
	copies := func(name string) set {
		return set{name: name, key: nftables.MustConcatSetType(nftables.TypeIFName, nftables.TypeEtherAddr), concat: true, size: comersSize,
			timeout: sourceTime}
	}
	return []set{ports("dhcp-rates"), ports("call-rates"), ports("query-rates"), copies("copy-rates"), copies("search-rates")}
}

// tooFast matches a frame that is one too many for the port that it came from. The set remembers the rate of each port.
func tooFast(set string, rate uint64, unit expr.LimitTime, burst uint32) exprs {
	return tooFastAt(expr.MetaKeyIIFNAME, set, rate, unit, burst)
}

// tooFastAt is tooFast for the port that the key names, and what is loaded behind it.
func tooFastAt(port expr.MetaKey, set string, rate uint64, unit expr.LimitTime, burst uint32, by ...expr.Any) exprs {
	return tooFastBy(cat(exprs{&expr.Meta{Key: port, Register: 1}}, by), set, rate, unit, burst)
}

// tooFastBy is tooFast for what by loads.
func tooFastBy(by exprs, set string, rate uint64, unit expr.LimitTime, burst uint32) exprs {
	return cat(by, exprs{
		&expr.Dynset{SrcRegKey: 1, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE,
			Exprs: []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: rate, Unit: unit, Burst: burst, Over: true}}}})
}

// tooManyRequests matches a request of DHCP, DHCPv6 or for router advertisements above the rate of its port, which is one for all.
func tooManyRequests(request exprs) exprs {
	return cat(request, tooFast("dhcp-rates", dhcpRate, expr.LimitTimeSecond, dhcpBurst))
}

// tooManyCopies matches a frame that leaves by an overlay above the rate of its guest, whose port has proved its MAC.
func tooManyCopies(set string) exprs {
	return tooFastAt(expr.MetaKeyOIFNAME, set, copyRate, expr.LimitTimeSecond, copyBurst, etherSaddr())
}

// tooManyQueries matches a packet to a service by UDP above the rate of its port.
func tooManyQueries(s service) exprs {
	return cat(dport(unix.IPPROTO_UDP, s.port), tooFast("query-rates", queryRate, expr.LimitTimeSecond, queryBurst))
}

// tooManyCalls matches the first packet of a TCP connection above the rate of its port.
func tooManyCalls() exprs {
	const flagsAt, syn, ack = 13, 0x02, 0x10
	return cat(masked(transport(flagsAt, syn), syn|ack), tooFast("call-rates", callRate, expr.LimitTimeSecond, callBurst))
}

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
