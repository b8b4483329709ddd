package worker

import (
	"context"

	"seedbed"
)

// Scripts runs provisioning scripts. A script's five steps are one process,
// which is a session of its job under one epoch: the engine has it go on turn
// by turn, and does itself what the script asks for between them.
type Scripts interface {
	// RunScript begins a session or has it go on, until the script has done what
	// the turn asks for, fails, or calls. A turn that begins a session ends the one
	// that the job had, of any epoch. output is called for each line that the script
	// puts out, from one goroutine at a time and never after the return; log lines
	// have the streams info, warn and error. An error ends the session: ErrNotFound
	// when there is none of that job and epoch, ErrUnavailable when the host cannot
	// run scripts now, ErrInvalid for a turn that cannot come next, the context's
	// when the turn was cut off. A script that fails is no error.
	RunScript(ctx context.Context, call seedbed.Call, turn seedbed.ScriptTurn, output func(seedbed.OutputLine)) (seedbed.ScriptResult, error)
	// CloseScript ends the job's session of any epoch, and takes back all that it
	// mapped and mounted. Without one there is nothing to do.
	CloseScript(ctx context.Context, job seedbed.JobID, id seedbed.InstanceID) error
	// Tools are those of the programs that are not there for scripts.
	Tools(names []string) (missing []string)
}

// RBDCluster is a pool that hypervisors reach in a Ceph cluster.
type RBDCluster interface {
	// Cluster is how.
	Cluster(ctx context.Context) (seedbed.RBDSource, error)
}

// DomainChecker looks at a domain before it is defined.
type DomainChecker interface {
	// CheckDomain says what would be changed in the document that a script made for
	// the domain, for people to read. ErrInvalid when it cannot be used.
	CheckDomain(ctx context.Context, spec seedbed.DomainSpec) (notes []string, err error)
}
