package seedbed

import "time"

// SnapshotSpec names one snapshot of a volume.
type SnapshotSpec struct {
	Pool     string     `json:"pool"`
	Volume   string     `json:"volume"`
	Instance InstanceID `json:"instance"` // that the volume belongs to
	Name     string     `json:"name"`     // valid for CheckName
}

// MaxSnapshots is how many snapshots a volume may have. Each takes room in the pool's record of the
// volume.
const MaxSnapshots = 200

// SnapshotInfo is one finished snapshot of a volume.
type SnapshotInfo struct {
	Name    string    `json:"name"`
	Job     JobID     `json:"job"` // that made it
	Created time.Time `json:"created"`
	// Size is the size that the volume had; 0 for a snapshot that an older release took.
	Size Bytes `json:"size,omitempty"`
}

// SnapshotJob is the input of the jobs that make and remove snapshots.
type SnapshotJob struct {
	Name string `json:"name"`
}

// SnapshotRestore is the input of a job that restores a snapshot. It is one of a SnapshotJob as well.
type SnapshotRestore struct {
	PowerSpec
	Name string `json:"name"`
}

// TrashState is the state of a removed volume.
type TrashState string

// The states of a removed volume.
const (
	Trashed  TrashState = "trashed"  // in its pool's trash, and purged once its time is over
	Restored TrashState = "restored" // a volume again, without an instance; the cleanup skips it
)

// TrashItem is a volume that was removed from its instance and still exists.
type TrashItem struct {
	Pool string `json:"pool"`
	// Node is the node that has it; empty if the pool is shared.
	Node string `json:"node,omitempty"`
	// ID names it in the trash of its pool; empty for a restored one.
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name"` // of the volume, before and again once it is restored
	State TrashState `json:"state"`
	// Instance is the instance that the volume belonged to.
	Instance InstanceID `json:"instance"`
	// Project is the project of that instance, as far as the volume's tag or a job says it.
	Project string    `json:"project,omitempty"`
	Size    Bytes     `json:"size"`
	Removed time.Time `json:"removed,omitzero"`
	// Expires is when the cleanup purges it. Both times are zero for a restored one.
	Expires time.Time `json:"expires,omitzero"`
}
