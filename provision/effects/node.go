package effects

import "seedbed"

// What a worker says of its node.
var (
	// Inventory is everything on the node that carries Seedbed's tag. When a driver does
	// not answer, that is not an error: the inventory then is not Complete.
	Inventory = Query[None, seedbed.Inventory]{"inventory"}
	// Health is the checks of the worker's drivers and of its configuration.
	Health = Query[None, []seedbed.Check]{"health"}
	// Report is what the node has for guests.
	Report = Query[None, seedbed.NodeReport]{"report"}
)
