package worker

import (
	"context"

	"seedbed"
)

// Snapshotter takes snapshots of volumes. A volume that is not there gives
// ErrNotFound, one that is not tagged with the instance ErrConflict.
type Snapshotter interface {
	// CreateSnapshot takes the snapshot that spec names, for job. One of that name
	// and job is returned as it is. Errors: ErrExists for one of another job,
	// ErrConflict for one that is not Seedbed's, ErrInvalid for a name that is not
	// usable, ErrInUse where the driver cannot take one of a volume that is in use.
	// Whatever the error, none of the name and job stays.
	CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error)
	// RemoveSnapshot removes a snapshot; one that is absent, as its volume may be,
	// is removed already. Unless of is empty only one that was made by that job
	// goes, and another gives ErrConflict.
	RemoveSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, of seedbed.JobID) error
	// Snapshots are the finished snapshots of a volume, oldest first.
	Snapshots(ctx context.Context, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error)
}

// Trash keeps removed volumes for the time that the pool is configured with.
type Trash interface {
	// TrashVolume moves the volume, with its snapshots, into the trash, waiting for
	// its last user, and returns it; in a pool without a trash it removes the
	// volume and returns nil. A volume that is absent gives nil, one that is not
	// tagged with id ErrConflict.
	TrashVolume(ctx context.Context, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error)
	// Trash is everything in the trash, or an error: never a part of it.
	Trash(ctx context.Context) ([]seedbed.TrashItem, error)
	// RestoreVolume makes the item of that ID a volume again, under its old name and
	// with its old tag. ErrNotFound when it is not in the trash, ErrExists when the name is taken.
	RestoreVolume(ctx context.Context, id string) (seedbed.VolumeInfo, error)
	// PurgeVolume removes an item for good, with its snapshots; one that is absent is
	// purged already. ErrInUse when its time is not over, unless early.
	PurgeVolume(ctx context.Context, id string, early bool) error
}

// Flattener makes volumes independent of the image that they are clones of.
type Flattener interface {
	// FlattenVolume copies what the volume shares with its image into it, and
	// returns it; one that shares nothing is returned as it is. A second call goes
	// on where the first was cut off. progress may be nil, as ImportImage's. Errors:
	// ErrNotFound without the volume, ErrConflict when it is not tagged with id,
	// ErrInUse where the driver cannot do it while the volume is in use or has
	// snapshots, ErrFull without room.
	FlattenVolume(ctx context.Context, name string, id seedbed.InstanceID, progress func(seedbed.Progress)) (seedbed.VolumeInfo, error)
	// StopFlatten ends what goes on of a flatten after its call has ended, and
	// returns when it has. The volume stays as usable as before.
	StopFlatten(ctx context.Context, name string, id seedbed.InstanceID) error
}
