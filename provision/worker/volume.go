package worker

import (
	"context"

	"seedbed"
)

// Snapshotter takes snapshots of volumes. A volume that does not exist returns ErrNotFound, one
// that is not tagged with the instance ErrConflict.
type Snapshotter interface {
	// CreateSnapshot takes the snapshot that spec names, for job. An existing snapshot with the
	// same name and job is returned unchanged. Errors: ErrExists for a snapshot of another job,
	// ErrConflict for one that is not Seedbed's, ErrInvalid for a name that cannot be used,
	// ErrInUse if the driver cannot take a snapshot of a volume in use. After an error no snapshot
	// with that name and job is left.
	CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error)
	// RemoveSnapshot removes a snapshot. An absent snapshot, or one of an absent volume, counts as
	// removed. Unless of is empty, it removes only a snapshot that was made by that job, and
	// returns ErrConflict for another.
	RemoveSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, of seedbed.JobID) error
	// RestoreSnapshot gives the volume the content that it had at the snapshot, in place. All its
	// snapshots stay. So does its size: what it has grown by since reads as zeros. A call that was
	// interrupted leaves the content undefined until it is repeated. Errors: ErrNotFound without the
	// snapshot, ErrInUse while the volume is in use, ErrConflict if the snapshot still reads from an
	// image of which the volume was made independent since.
	RestoreSnapshot(ctx context.Context, spec seedbed.SnapshotSpec) error
	// Snapshots returns the finished snapshots of a volume, oldest first.
	Snapshots(ctx context.Context, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error)
}

// FileSnapshotter is implemented by a Pool whose snapshots are inside files, which only the domain that has them open may change
// (DiskSnapshotter). The errors are those of Snapshotter.
type FileSnapshotter interface {
	// BeginSnapshot records the snapshot that the domain is to take, and returns the disk. taken is set if the file has it already, since an
	// earlier call. RemoveSnapshot removes the record as well. ErrFull without room.
	BeginSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (disk seedbed.Disk, taken bool, err error)
	// EndSnapshot records that it has been taken. ErrNotFound if the file does not have it.
	EndSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) error
}

// DiskSnapshotter takes snapshots inside the files of the disks that a domain has open.
type DiskSnapshotter interface {
	// SnapshotDisks takes a snapshot of each of the disks, all at one moment, or none. Errors: ErrNotFound for a domain that is not
	// defined, ErrConflict for one that is not tagged or that does not have one of the disks, ErrUnavailable for one that is off.
	SnapshotDisks(ctx context.Context, id seedbed.InstanceID, all []seedbed.DiskSnapshot) error
	// DropDiskSnapshot removes a snapshot. It does nothing for a domain that is off, absent or without that disk, and for a disk without
	// the snapshot. ErrConflict if the domain is not tagged.
	DropDiskSnapshot(ctx context.Context, id seedbed.InstanceID, s seedbed.DiskSnapshot) error
}

// Trash keeps removed volumes for the time that the pool is configured with.
type Trash interface {
	// TrashVolume moves the volume, with its snapshots, into the trash, waiting for its last user,
	// and returns the item. In a pool without a trash it removes the volume and returns nil. An
	// absent volume returns nil, one that is not tagged with id ErrConflict.
	TrashVolume(ctx context.Context, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error)
	// Trash returns everything in the trash, or an error: never a part of it.
	Trash(ctx context.Context) ([]seedbed.TrashItem, error)
	// RestoreVolume makes the item of that ID a volume again, with its former name and tag. Errors:
	// ErrNotFound if it is not in the trash, ErrExists if the name is taken.
	RestoreVolume(ctx context.Context, id string) (seedbed.VolumeInfo, error)
	// PurgeVolume removes an item for good, with its snapshots. An absent item counts as purged.
	// ErrInUse if its time is not over, unless early.
	PurgeVolume(ctx context.Context, id string, early bool) error
}

// Flattener makes volumes independent of the image that they are clones of.
type Flattener interface {
	// FlattenVolume copies what the volume shares with its image into it, and returns it. A volume
	// that shares nothing is returned unchanged. A second call continues where the first was
	// interrupted. progress may be nil, as for ImportImage. Errors: ErrNotFound without the volume,
	// ErrConflict if it is not tagged with id, ErrInUse if the driver cannot flatten a volume that
	// is in use or has snapshots, ErrFull without room.
	FlattenVolume(ctx context.Context, name string, id seedbed.InstanceID, progress func(seedbed.Progress)) (seedbed.VolumeInfo, error)
	// StopFlatten ends a flatten that continues after its call has ended, and returns when it has
	// ended. The volume stays as usable as before.
	StopFlatten(ctx context.Context, name string, id seedbed.InstanceID) error
}
