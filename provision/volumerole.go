package provision

import (
	"context"

	"seedbed"
)

// Snapshots takes and removes snapshots of volumes. Both are idempotent per job.
type Snapshots interface {
	CreateSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error)
	// RemoveSnapshot removes the snapshot, unless of is empty only when that job took it.
	RemoveSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec, of seedbed.JobID) error
}

// Flattener makes volumes independent of their image. Both are idempotent.
type Flattener interface {
	FlattenVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID, progress func(seedbed.Progress)) (seedbed.VolumeInfo, error)
	// StopFlatten ends what goes on after the call has ended.
	StopFlatten(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) error
}

// Discarder removes volumes so that people can get them back.
type Discarder interface {
	// TrashVolume moves the volume into its pool's trash; the answer is nil when
	// nothing is kept of it.
	TrashVolume(ctx context.Context, call seedbed.Call, pool, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error)
}

// TrashBin is what was removed and is still there.
type TrashBin interface {
	// Trash is everything that is in a node's trash or came back from it, or an error:
	// never a part of it. What is in a pool that nodes share names no node.
	Trash(ctx context.Context, node string) ([]seedbed.TrashItem, error)
	// PurgeVolume removes an item for good; seedbed.ErrInUse when its time is not over, unless early.
	PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error
}
