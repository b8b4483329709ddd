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
	// FenceNode has the worker switch off another node by a fence agent, and returns once the agent says that it is off. FenceStatus asks
	// the agent whether the node is on.
	FenceNode   = Effect[seedbed.FenceCall, None]{"fence-node"}
	FenceStatus = Query[seedbed.FenceCall, FenceState]{"fence-status"}
	// Admit tells the worker of a node that was fenced its incarnation. Before, it removes the domains that are elsewhere now.
	Admit          = Query[Admission, None]{"admit"}
	ProbeAddresses = Query[[]seedbed.AddressProbe, seedbed.AddressesProbed]{"probe-addresses"}
)

type (
	// FenceState is what a fence agent says of its node.
	FenceState struct {
		On bool `json:"on"`
	}
	// Admission lets a node do jobs again that was fenced.
	Admission struct {
		Incarnation int64 `json:"incarnation"`
		// Elsewhere are the instances whose domains may be left there, and which are on other nodes now.
		Elsewhere []seedbed.InstanceID `json:"elsewhere,omitempty"`
	}
)
