package netcfg

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// hookARPInput is NF_ARP_IN of linux/netfilter_arp.h, whose hooks have numbers of their own.
const hookARPInput = 0

// arpTable returns the table that drops ARP which a guest's port passes to the node past its bridge.
// The kernel does so with frames to 01:80:c2:00:00:0e (br_handle_frame), and neither the bridge table
// nor the inet table sees them. The node would answer for each of its addresses, and a guest could
// fill the node's one neighbour table with forged senders. ARP that is meant for the node arrives on
// the bridge's interface. Hosts on a bridged network do not learn of the node.
func arpTable() *table {
	return &table{
		family: nftables.TableFamilyARP,
		sets:   []set{ports(), wired()},
		chains: []chain{
			{name: "input", typ: nftables.ChainTypeFilter, hook: nftables.ChainHookRef(hookARPInput), prio: 0, rules: []rule{
				{"past the bridge", cat(in(expr.MetaKeyIIFNAME, "ports"), drop())},
				{"past the bridge, from a port that is not listed", cat(iifGuest(), toGroup(), drop())},
				{"from a bridged network", cat(fromWire(), drop())},
			}},
		},
	}
}
