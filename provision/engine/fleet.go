package engine

import (
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// Fleet gives access to the workers of the installation's nodes.
type Fleet interface {
	// Of returns the worker of a node. For a node that is unknown or unreachable, all calls of that
	// worker fail with seedbed.ErrUnavailable and say what is missing.
	Of(node string) effects.Worker
	// Nodes returns the nodes that are known at the moment, by name. It never waits.
	Nodes() []seedbed.Node
}

// OneWorker returns the fleet of an installation whose only node is node.
func OneWorker(node string, w effects.Worker) Fleet { return oneWorker{node, w} }

type oneWorker struct {
	node   string
	worker effects.Worker
}

// Of implements Fleet.
func (o oneWorker) Of(string) effects.Worker { return o.worker }

// Nodes implements Fleet.
func (o oneWorker) Nodes() []seedbed.Node { return []seedbed.Node{{Name: o.node, Seen: time.Now()}} }
