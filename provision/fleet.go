package provision

import (
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// Fleet is the workers of the installation's hypervisors.
type Fleet interface {
	// Of is the worker of a node. One that is not known, or that cannot be reached,
	// gives a worker whose calls all fail with seedbed.ErrUnavailable and say what is missing.
	Of(node string) effects.Worker
	// Nodes are the hypervisors by name, as they are known at the moment; it never waits.
	Nodes() []seedbed.Node
}

// OneWorker is the fleet of an installation whose only hypervisor is node.
func OneWorker(node string, w effects.Worker) Fleet { return oneWorker{node, w} }

type oneWorker struct {
	node   string
	worker effects.Worker
}

// Of implements Fleet.
func (o oneWorker) Of(string) effects.Worker { return o.worker }

// Nodes implements Fleet.
func (o oneWorker) Nodes() []seedbed.Node { return []seedbed.Node{{Name: o.node, Seen: time.Now()}} }
