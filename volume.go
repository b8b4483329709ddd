package seedbed

import "time"

// ImageRemoving is the state of an image whose removal was accepted: nothing
// new is made of it.
const ImageRemoving ImageState = "removing"

// SnapshotSpec names one snapshot of a volume.
type SnapshotSpec struct {
	Pool     string     `json:"pool"`
	Volume   string     `json:"volume"`
	Instance InstanceID `json:"instance"` // whose volume it is
	Name     string     `json:"name"`     // as CheckName takes it
}

// MaxSnapshots is how many snapshots a volume may have: each takes room in the
// record that a pool keeps of its volume.
const MaxSnapshots = 200

// SnapshotInfo is one finished snapshot of a volume.
type SnapshotInfo struct {
	Name    string    `json:"name"`
	Job     JobID     `json:"job"` // that made it
	Created time.Time `json:"created"`
}

// SnapshotJob is the input of the jobs that make and remove snapshots.
type SnapshotJob struct {
	Name string `json:"name"`
}

// ImageRemoval is the input of a job that removes an image.
type ImageRemoval struct {
	// Import is the job that made the image: what is tagged with another stays.
	Import JobID `json:"import"`
	// Was is the image's state before.
	Was ImageState `json:"was"`
}

// TrashState is where a removed volume is.
type TrashState string

// The states of a removed volume.
const (
	Trashed  TrashState = "trashed"  // in its pool's trash, and purged once its time is over
	Restored TrashState = "restored" // a volume again, of no instance, and left alone by every cleanup
)

// TrashItem is a volume that was removed from its instance and still exists.
type TrashItem struct {
	Pool string `json:"pool"`
	// Node is the one that has it; empty where the pool is shared.
	Node string `json:"node,omitempty"`
	// ID names it in its pool's trash; empty for one that is restored.
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name"` // of the volume, before and again once it is restored
	State TrashState `json:"state"`
	// Instance is whose volume it was.
	Instance InstanceID `json:"instance"`
	Size     Bytes      `json:"size"`
	Removed  time.Time  `json:"removed,omitzero"`
	// Expires is when the cleanup purges it. Both times are zero for one that is restored.
	Expires time.Time `json:"expires,omitzero"`
}
