package provision

import (
	"context"
	"time"

	"seedbed"
)

// Claimer hands out jobs under a lease. A claim raises the job's epoch; a call with an older epoch
// returns seedbed.ErrStale.
type Claimer interface {
	// ClaimNext returns the next job that waits or whose lease has ended; nil if there is none.
	ClaimNext(ctx context.Context, c seedbed.ClaimOptions) (*seedbed.Job, error)
	// RenewLease extends the lease. cancel reports whether the job is to be cancelled.
	RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error)
	// Release ends the lease now, without using up an attempt.
	Release(ctx context.Context, ref seedbed.JobRef) error
	// Postpone ends the lease, too, but the job can be claimed again only after wait. spent is set
	// if that will be another attempt at its stage.
	Postpone(ctx context.Context, ref seedbed.JobRef, wait time.Duration, spent bool) error
}

// Hinter notifies of writes.
type Hinter interface {
	// Hint returns a channel that is closed at the next committed write of this process.
	Hint() <-chan struct{}
	// AppliedHint returns a channel that is closed when this process next learns what a node has
	// applied.
	AppliedHint() <-chan struct{}
}

// Journal records the progress of a job.
type Journal interface {
	Step(ctx context.Context, ref seedbed.JobRef, step seedbed.Step) error
	Undo(ctx context.Context, ref seedbed.JobRef, cause string) error
	// Undone records that a stage is undone or, with a problem, what is left of it.
	Undone(ctx context.Context, ref seedbed.JobRef, stage, problem string, left ...seedbed.Orphan) error
	Finish(ctx context.Context, ref seedbed.JobRef, out seedbed.JobResult) error
}

// History records and returns what happened.
type History interface {
	LogEvent(ctx context.Context, ref seedbed.JobRef, event seedbed.Event) error
	// LogOutput appends to the output of the stage's commands.
	LogOutput(ctx context.Context, ref seedbed.JobRef, stage string, lines []seedbed.OutputLine) error
	Stages(ctx context.Context, id seedbed.JobID) ([]seedbed.Stage, error)
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
}

// GuestPlane is the feed to the metadata servers. Revisions count per node.
type GuestPlane interface {
	// Publish makes the guest plane of node serve g with its documents.
	Publish(ctx context.Context, ref seedbed.JobRef, node string, g seedbed.Guest, docs seedbed.Documents) (revision int64, err error)
	// Refresh renders the record of an instance again, from the instance as it is now, if node
	// serves it. Otherwise the revision is 0.
	Refresh(ctx context.Context, node string, id seedbed.InstanceID, render func(seedbed.Instance, seedbed.Guest) seedbed.Guest) (revision int64, err error)
	// Retract makes the guest plane of node forget the instance.
	Retract(ctx context.Context, ref seedbed.JobRef, node string, id seedbed.InstanceID) (revision int64, err error)
	// Applied returns the revision that node has acknowledged; 0 and the zero time if it never has.
	Applied(ctx context.Context, node string) (revision int64, at time.Time, err error)
}

// Catalogue reads what jobs work on.
type Catalogue interface {
	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	Network(ctx context.Context, name string) (seedbed.Network, error)
	Image(ctx context.Context, name string) (seedbed.Image, error)
}

// Switch records whether an instance runs.
type Switch interface {
	// SetInstanceState changes the state if it is from and no job works on the instance or waits
	// to. It reports whether it did.
	SetInstanceState(ctx context.Context, id seedbed.InstanceID, from, to seedbed.InstanceState) (bool, error)
}

// Store is the part of the database that the engine uses.
type Store interface {
	Claimer
	Hinter
	Journal
	History
	GuestPlane
	Catalogue
	Switch
	Rebuilder
	ScriptRuns
	ScriptDomains
}
