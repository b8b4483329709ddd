package worker

import (
	"context"

	"seedbed"
)

// Scripts runs provisioning scripts. One process runs the five steps of a script. It is a session
// of its job under one epoch: the engine continues it turn by turn, and carries out the script's
// calls between the turns.
type Scripts interface {
	// RunScript starts or continues a session, until the script has done what the turn asks for,
	// fails, or makes a call. A turn that starts a session first ends the job's previous one, of
	// any epoch. output is called for each line that the script prints, from one goroutine at a
	// time and never after the return; log lines have the streams info, warn and error. An error
	// ends the session: ErrNotFound if there is no session of that job and epoch, ErrUnavailable if
	// the host cannot run scripts now, ErrInvalid for a turn that cannot come next, the context's
	// error if the turn was interrupted. A script that fails is not an error.
	RunScript(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error)
	// CloseScript ends the job's session of any epoch, and undoes everything that it mapped and
	// mounted. Without a session it does nothing.
	CloseScript(ctx context.Context, job seedbed.JobID, id seedbed.InstanceID) error
	// Tools returns those of the programs that scripts cannot use because they are missing.
	Tools(names []string) (missing []string)
}

// RBDCluster is a pool that hypervisors reach in a Ceph cluster.
type RBDCluster interface {
	// Cluster returns how hypervisors reach the pool.
	Cluster(ctx context.Context) (seedbed.RBDSource, error)
}

// DomainChecker checks a domain before it is defined.
type DomainChecker interface {
	// CheckDomain returns notes, for people to read, on what would be changed in the document that
	// a script made for the domain. ErrInvalid if the document cannot be used.
	CheckDomain(ctx context.Context, spec seedbed.DomainSpec) (notes []string, err error)
}
