package provision

import (
	"context"
	"time"

	"seedbed"
)

// Fleet is the workers of the installation's hypervisors.
type Fleet interface {
	// Of is the worker of a node. One that is not known, or that cannot be reached,
	// gives a worker whose calls all fail with seedbed.ErrUnavailable and say what is missing.
	Of(node string) Worker
	// Nodes are the hypervisors by name, as they are known at the moment; it never waits.
	Nodes() []seedbed.Node
}

// Superseder is told that another goes on with a job.
type Superseder interface {
	// Supersede ends what the worker does for the call's job, and has it refuse from
	// then on what comes under an earlier epoch. It returns when all has ended.
	Supersede(ctx context.Context, call seedbed.Call) error
}

// OneWorker is the fleet of an installation whose only hypervisor is node.
func OneWorker(node string, w Worker) Fleet { return oneWorker{node, w} }

type oneWorker struct {
	node   string
	worker Worker
}

// Of implements Fleet.
func (o oneWorker) Of(string) Worker { return o.worker }

// Nodes implements Fleet.
func (o oneWorker) Nodes() []seedbed.Node { return []seedbed.Node{{Name: o.node, Seen: time.Now()}} }
