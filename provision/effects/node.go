package effects

import "seedbed"

// What a worker reports about its node.
var (
	// Inventory returns everything on the node that carries Seedbed's tag. A driver that does not
	// answer is not an error: the inventory is then not Complete.
	Inventory = Query[None, seedbed.Inventory]{"inventory"}
	// Health returns the checks of the worker's drivers and of its configuration.
	Health = Query[None, []seedbed.Check]{"health"}
	// Report returns what the node has for guests.
	Report = Query[None, seedbed.NodeReport]{"report"}
	// DomainUsage returns what the running domains have used, at about the same moment.
	DomainUsage = Query[None, []seedbed.DomainUsage]{"domain-usage"}
	// ProbeAddresses returns the addresses that hosts outside the node answer for.
	ProbeAddresses = Query[[]seedbed.AddressProbe, seedbed.AddressesProbed]{"probe-addresses"}
)
