package api

import (
	"context"

	"seedbed"
)

// Store is what the API reads and writes. Its methods return ErrNotFound for an object that does
// not exist and ErrExists for a name that is taken.
type Store interface {
	Images
	Profiles
	Hooks
	HookChanges
	Received
	Endpoints
	EndpointChanges
	Outbox
	Instances
	Listings
	Jobs
	Leftovers
	Names
	Histories
	Streaming
	Catalogues
	Counter
	Records
	Notices
	Installation
	Tokens
	Quotas
	Audits
	Provisioner
	OVAs
	Nodes
	NodeChanges
}

// Images reads the images that can be cloned.
type Images interface {
	Image(ctx context.Context, name string) (seedbed.Image, error)
	Images(ctx context.Context) ([]seedbed.Image, error)
}

// Profiles stores what instances are made from.
type Profiles interface {
	CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error)
	Profile(ctx context.Context, name string) (seedbed.Profile, error)
	// ChangeProfile applies change to a profile. The name cannot change.
	ChangeProfile(ctx context.Context, name string, change func(*seedbed.Profile) error) (seedbed.Profile, error)
	DeleteProfile(ctx context.Context, name string) error
}

// Instances reads the instances, and the events of their guests.
type Instances interface {
	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	InstanceByName(ctx context.Context, name string) (seedbed.Instance, error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	// GuestEvents returns at most limit events, newest first.
	GuestEvents(ctx context.Context, id seedbed.InstanceID, limit int) ([]seedbed.GuestEvent, error)
}

// Jobs finds, cancels and resumes jobs.
type Jobs interface {
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// JobByPrefix returns the one job whose ID starts with prefix, which has at least eight
	// characters.
	JobByPrefix(ctx context.Context, prefix string) (seedbed.Job, error)
	// CancelJob marks a job for undoing. It returns ErrConflict when the job has ended.
	CancelJob(ctx context.Context, id seedbed.JobID) error
	// ResumeJob queues a failed job again, at the stage that failed.
	ResumeJob(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
}

// Histories reads the stages, events and output of jobs.
type Histories interface {
	Stages(ctx context.Context, id seedbed.JobID) ([]seedbed.Stage, error)
	// Events returns at most limit events with a number above after, oldest first.
	Events(ctx context.Context, id seedbed.JobID, after int64, limit int) ([]seedbed.Event, error)
	// JobOutput returns at most limit lines with a number above after, of one stage or, if stage is
	// empty, of all.
	JobOutput(ctx context.Context, id seedbed.JobID, stage string, after int64, limit int) ([]seedbed.JobOutput, error)
	// Hint returns a channel that the next write of this process closes.
	Hint() <-chan struct{}
}

// Records reads what the API never changes.
type Records interface {
	Networks(ctx context.Context) ([]seedbed.Network, error)
	Leases(ctx context.Context) ([]seedbed.Lease, error)
}

// Intake makes jobs of requests. A job is durable before the method returns.
type Intake interface {
	Submit(ctx context.Context, r seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error)
	Import(ctx context.Context, name, pool string, spec seedbed.ImportSpec) (seedbed.Receipt, error)
	// Plan returns what a create would make, and writes nothing.
	Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error)
	// PlanImport returns what an import would make, and writes nothing.
	PlanImport(ctx context.Context, r seedbed.ImportRequest) (seedbed.ImportPlan, error)
}

// Console reads the last tail bytes, at most, of an instance's serial console on a node.
type Console interface {
	Console(ctx context.Context, node string, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error)
}
