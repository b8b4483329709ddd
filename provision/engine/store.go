package engine

import (
	"context"
	"time"

	"seedbed"
)

// Store is the part of the database that the engine uses. A claim raises the epoch of its job; a
// call with an older epoch returns seedbed.ErrStale.
type Store interface {
	// ClaimNext returns the next job that waits or whose lease has ended; nil if there is none.
	ClaimNext(ctx context.Context, c seedbed.ClaimOptions) (*seedbed.Job, error)
	// RenewLease extends the lease. cancel reports whether the job is to be cancelled.
	RenewLease(ctx context.Context, ref seedbed.JobRef, lease time.Duration) (cancel bool, err error)
	// Release ends the lease now, without using up an attempt.
	Release(ctx context.Context, ref seedbed.JobRef) error
	// Postpone ends the lease, too, but the job can be claimed again only after wait. spent is set
	// if that will be another attempt at its stage.
	Postpone(ctx context.Context, ref seedbed.JobRef, wait time.Duration, spent bool) error
	// Hint returns a channel that is closed at the next committed write of this process.
	Hint() <-chan struct{}

	Step(ctx context.Context, ref seedbed.JobRef, step seedbed.Step) error
	Undo(ctx context.Context, ref seedbed.JobRef, cause string) error
	// Undone records that a stage is undone or, with a problem, what is left of it.
	Undone(ctx context.Context, ref seedbed.JobRef, stage, problem string, left ...seedbed.Orphan) error
	Finish(ctx context.Context, ref seedbed.JobRef, out seedbed.JobResult) error
	LogEvent(ctx context.Context, ref seedbed.JobRef, event seedbed.Event) error
	// LogOutput appends to the output of the stage's commands.
	LogOutput(ctx context.Context, ref seedbed.JobRef, stage string, lines []seedbed.OutputLine) error
	Stages(ctx context.Context, id seedbed.JobID) ([]seedbed.Stage, error)
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)

	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	// SetInstanceState changes the state of an instance that was read as seen, unless the instance
	// has changed since, or a job works on it or waits to. It reports whether it did.
	SetInstanceState(ctx context.Context, seen seedbed.Instance, to seedbed.InstanceState) (bool, error)
}
