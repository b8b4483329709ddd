package effects

import "seedbed"

// The effects on volumes.
var (
	CloneVolume = Effect[seedbed.VolumeSpec, seedbed.VolumeInfo]{"clone-volume"}
	// CopyVolume makes a volume with the content of another one. RemoveSnapshot removes what it may leave on that one.
	CopyVolume = Effect[seedbed.VolumeCopy, seedbed.VolumeInfo]{"copy-volume"}
	// FillVolume makes a volume with the disk in an uploaded file, which DropUpload removes.
	FillVolume = Effect[UploadedVolume, seedbed.VolumeInfo]{"fill-volume"}
	// ExportVolume makes a file of a volume, which OpenVolumeFile sends and DropUpload removes. The result is the file's size.
	// RemoveSnapshot removes what it may leave on the volume.
	ExportVolume  = Effect[VolumeExport, seedbed.Bytes]{"export-volume"}
	RemoveVolume  = Order[VolumeRef]{"remove-volume"}
	ResizeVolume  = Effect[VolumeSize, seedbed.VolumeInfo]{"resize-volume"}
	FlattenVolume = Effect[VolumeRef, seedbed.VolumeInfo]{"flatten-volume"}
	// StopFlatten stops a flatten that continues after its call of FlattenVolume has ended.
	StopFlatten = Order[VolumeRef]{"stop-flatten"}

	CreateSnapshot = Effect[seedbed.SnapshotSpec, seedbed.SnapshotInfo]{"create-snapshot"}
	// SnapshotOpen has a domain that runs take snapshots of volumes that it has open as files, all at one moment, or none. Those that an
	// earlier call of the job has taken are taken again.
	SnapshotOpen   = Order[OpenSnapshots]{"snapshot-open"}
	RemoveSnapshot = Order[SnapshotRef]{"remove-snapshot"}
	// RestoreSnapshot gives a volume the content that it had at a snapshot.
	RestoreSnapshot = Order[seedbed.SnapshotSpec]{"restore-snapshot"}
	// Snapshots lists the snapshots of a volume, oldest first.
	Snapshots = Query[VolumeRef, []seedbed.SnapshotInfo]{"snapshots"}

	// Volume returns one volume.
	Volume = Query[VolumeRef, seedbed.VolumeInfo]{"volume"}

	AdoptVolume   = Effect[seedbed.VolumeAdoption, seedbed.VolumeInfo]{"adopt-volume"}
	ReleaseVolume = Order[seedbed.VolumeAdoption]{"release-volume"}
)

// The effects on the trash. Operators request all of them except TrashVolume; the driver serializes
// their calls.
var (
	// TrashVolume moves a volume into its pool's trash. The result is nil if nothing is kept of it.
	TrashVolume = Effect[VolumeRef, *seedbed.TrashItem]{"trash-volume"}
	// Trash lists what is in the trash of every pool of the worker, and the volumes that were
	// restored from it. It fails if a pool does not answer.
	Trash         = Query[None, []seedbed.TrashItem]{"trash"}
	RestoreVolume = Query[TrashRef, seedbed.VolumeInfo]{"restore-volume"}
	// DiscardVolume puts a restored volume back into the trash. If the pool has no trash, it
	// removes the volume, and the result is nil. It returns ErrConflict for a volume that was not
	// restored.
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
	// UploadedVolume asks for a volume with the disk in a file that was uploaded to its pool.
	UploadedVolume struct {
		seedbed.VolumeSpec
		Upload string `json:"upload"`
		Format string `json:"format,omitempty"`
	}
	// VolumeExport asks for a file with what a volume has, raw or qcow2. Source has the pool of the file.
	VolumeExport struct {
		seedbed.VolumeFile
		Format string             `json:"format"`
		Source seedbed.CopySource `json:"source"`
	}
	// VolumeSize is the size that a volume of an instance is to have.
	VolumeSize struct {
		Pool     string             `json:"pool"`
		Name     string             `json:"name"`
		Instance seedbed.InstanceID `json:"instance"`
		Size     seedbed.Bytes      `json:"size"`
		// Domain is the instance whose domain may have it open; empty means Instance.
		Domain seedbed.InstanceID `json:"domain,omitempty"`
	}
	// SnapshotRef names a snapshot of a volume.
	SnapshotRef struct {
		seedbed.SnapshotSpec
		// Of is the job that made it; empty means any.
		Of seedbed.JobID `json:"of,omitempty"`
		// Domain is the instance whose domain may have the volume open; empty means Instance.
		Domain seedbed.InstanceID `json:"domain,omitempty"`
	}
	// OpenSnapshots names snapshots of volumes that a domain has open.
	OpenSnapshots struct {
		Domain    seedbed.InstanceID     `json:"domain"`
		Snapshots []seedbed.SnapshotSpec `json:"snapshots"`
	}
	// TrashRef names an item of a pool's trash.
	TrashRef struct {
		Pool string `json:"pool"`
		ID   string `json:"id"`
		// Early purges the item before its time is over.
		Early bool `json:"early,omitempty"`
	}
)
