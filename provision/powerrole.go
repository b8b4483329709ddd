package provision

import (
	"context"

	"seedbed"
)

// Rebuilder changes what instances are made of, for rebuild jobs.
type Rebuilder interface {
	// Rebuilding is what the job makes of its instance, and what that was before.
	Rebuilding(ctx context.Context, id seedbed.JobID) (seedbed.Rebuild, error)
	// Exchange makes the instance the next one, while the job runs, or what it was
	// before, while it is undone. Once more, the latter changes nothing, and the
	// former that alone that the guest has fetched and reported.
	Exchange(ctx context.Context, ref seedbed.JobRef, to seedbed.RebuildSide) error
}
