package provision

import (
	"context"

	"seedbed"
)

// Asker asks guests for something, without waiting for it.
type Asker interface {
	// ShutdownDomain asks a domain's guest to shut down. It may be asked again; a
	// domain that is off or absent is off already.
	ShutdownDomain(ctx context.Context, call seedbed.Call, id seedbed.InstanceID) error
}

// Rebuilder changes what instances are made of, for rebuild jobs.
type Rebuilder interface {
	// Rebuilding is what the job makes of its instance, and what that was before.
	Rebuilding(ctx context.Context, id seedbed.JobID) (seedbed.Rebuild, error)
	// Exchange makes the instance the next one, while the job runs, or what it was
	// before, while it is undone. Once more, the latter changes nothing, and the
	// former that alone that the guest has fetched and reported.
	Exchange(ctx context.Context, ref seedbed.JobRef, to seedbed.RebuildSide) error
}
