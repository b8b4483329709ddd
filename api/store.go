package api

import (
	"context"

	"seedbed"
)

// Store is what the API reads and writes. Its parts give ErrNotFound for what
// is not there and ErrExists for a name that is taken.
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
	Censuses
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

// Images are the images that can be cloned.
type Images interface {
	Image(ctx context.Context, name string) (seedbed.Image, error)
	Images(ctx context.Context) ([]seedbed.Image, error)
}

// Profiles are what instances are made from.
type Profiles interface {
	CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error)
	Profile(ctx context.Context, name string) (seedbed.Profile, error)
	// ChangeProfile makes a profile what change says, in all but its name.
	ChangeProfile(ctx context.Context, name string, change func(*seedbed.Profile) error) (seedbed.Profile, error)
	DeleteProfile(ctx context.Context, name string) error
}

// Instances are the machines, and what they did.
type Instances interface {
	Instance(ctx context.Context, id seedbed.InstanceID) (seedbed.Instance, error)
	InstanceByName(ctx context.Context, name string) (seedbed.Instance, error)
	Instances(ctx context.Context) ([]seedbed.Instance, error)
	// GuestEvents gives at most limit events, newest first.
	GuestEvents(ctx context.Context, id seedbed.InstanceID, limit int) ([]seedbed.GuestEvent, error)
}

// Jobs are the jobs by ID and by age.
type Jobs interface {
	Job(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
	// JobByPrefix finds the one job whose ID starts with at least eight given characters.
	JobByPrefix(ctx context.Context, prefix string) (seedbed.Job, error)
	// CancelJob marks a job to be undone; ErrConflict when it has ended.
	CancelJob(ctx context.Context, id seedbed.JobID) error
	// ResumeJob queues a failed job again, at the stage that failed.
	ResumeJob(ctx context.Context, id seedbed.JobID) (seedbed.Job, error)
}

// Histories are the stages and events of jobs.
type Histories interface {
	Stages(ctx context.Context, id seedbed.JobID) ([]seedbed.Stage, error)
	// Events gives at most limit events with a number above after, oldest first.
	Events(ctx context.Context, id seedbed.JobID, after int64, limit int) ([]seedbed.Event, error)
	// JobOutput gives at most limit lines above after, of one stage or with an empty name of all.
	JobOutput(ctx context.Context, id seedbed.JobID, stage string, after int64, limit int) ([]seedbed.JobOutput, error)
	// Hint is closed at the next write of this process.
	Hint() <-chan struct{}
}

// Records are what is only read.
type Records interface {
	Networks(ctx context.Context) ([]seedbed.Network, error)
	Leases(ctx context.Context) ([]seedbed.Lease, error)
}

// Intake makes jobs of requests, durable before it returns.
type Intake interface {
	Submit(ctx context.Context, r seedbed.Request, d *seedbed.Delivery) (seedbed.Receipt, error)
	Import(ctx context.Context, name, pool string, spec seedbed.ImportSpec) (seedbed.Receipt, error)
	// Plan says what a create would make, and writes nothing.
	Plan(ctx context.Context, r seedbed.Request) (seedbed.Plan, error)
	// PlanImport says what an import would make, and writes nothing.
	PlanImport(ctx context.Context, r seedbed.ImportRequest) (seedbed.ImportPlan, error)
}

// Console reads the end of the serial console of an instance on a node, at most tail bytes.
type Console interface {
	Console(ctx context.Context, node string, id seedbed.InstanceID, tail seedbed.Bytes) ([]byte, error)
}
