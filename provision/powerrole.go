package provision

import (
	"context"

	"seedbed"
)

// Rebuilder changes what instances are made of, for rebuild jobs.
type Rebuilder interface {
	// Rebuilding returns what the job makes of its instance, and what the instance was before.
	Rebuilding(ctx context.Context, id seedbed.JobID) (seedbed.Rebuild, error)
	// Exchange replaces the instance by its new side while the job runs, or by its former side
	// while the job is undone. A second call with the former side changes nothing; a second call
	// with the new side only clears what the guest has fetched and reported.
	Exchange(ctx context.Context, ref seedbed.JobRef, to seedbed.RebuildSide) error
}
