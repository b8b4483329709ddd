package effects

import "seedbed"

// The effects on volumes.
var (
	CloneVolume   = Effect[seedbed.VolumeSpec, seedbed.VolumeInfo]{"clone-volume"}
	RemoveVolume  = Order[VolumeRef]{"remove-volume"}
	ResizeVolume  = Effect[VolumeSize, seedbed.VolumeInfo]{"resize-volume"}
	FlattenVolume = Effect[VolumeRef, seedbed.VolumeInfo]{"flatten-volume"}
	// StopFlatten ends what goes on after a call of FlattenVolume has ended.
	StopFlatten = Order[VolumeRef]{"stop-flatten"}

	CreateSnapshot = Effect[seedbed.SnapshotSpec, seedbed.SnapshotInfo]{"create-snapshot"}
	RemoveSnapshot = Order[SnapshotRef]{"remove-snapshot"}
	// Snapshots lists the snapshots of a volume, oldest first.
	Snapshots = Query[VolumeRef, []seedbed.SnapshotInfo]{"snapshots"}

	AdoptVolume   = Effect[seedbed.VolumeAdoption, seedbed.VolumeInfo]{"adopt-volume"}
	ReleaseVolume = Order[seedbed.VolumeAdoption]{"release-volume"}
)

// The effects on the trash. Operators ask for all but TrashVolume; the driver keeps
// their calls apart.
var (
	// TrashVolume moves a volume into its pool's trash. The result is nil when nothing
	// is kept of it.
	TrashVolume = Effect[VolumeRef, *seedbed.TrashItem]{"trash-volume"}
	// Trash lists what is in the trash of every pool of the worker, and the volumes that
	// came back from it. It fails when a pool does not answer.
	Trash         = Query[None, []seedbed.TrashItem]{"trash"}
	RestoreVolume = Query[TrashRef, seedbed.VolumeInfo]{"restore-volume"}
	// DiscardVolume puts a restored volume back into the trash or, where the pool keeps
	// none, removes it; the result is then nil. It gives ErrConflict for a volume that
	// was not restored.
	DiscardVolume = Query[ImageRef, *seedbed.TrashItem]{"discard-volume"}
	PurgeVolume   = Query[TrashRef, None]{"purge-volume"}
)

type (
	// VolumeRef names a volume of an instance.
	VolumeRef struct {
		Pool     string             `json:"pool"`
		Name     string             `json:"name"`
		Instance seedbed.InstanceID `json:"instance"`
	}
	// VolumeSize is the size that a volume of an instance is to have.
	VolumeSize struct {
		Pool     string             `json:"pool"`
		Name     string             `json:"name"`
		Instance seedbed.InstanceID `json:"instance"`
		Size     seedbed.Bytes      `json:"size"`
	}
	// SnapshotRef names a snapshot of a volume.
	SnapshotRef struct {
		seedbed.SnapshotSpec
		// Of is the job that made it; empty means any.
		Of seedbed.JobID `json:"of,omitempty"`
	}
	// TrashRef names an item of a pool's trash.
	TrashRef struct {
		Pool string `json:"pool"`
		ID   string `json:"id"`
		// Early purges the item before its time is over.
		Early bool `json:"early,omitempty"`
	}
)
