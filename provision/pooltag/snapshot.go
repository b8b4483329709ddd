package pooltag

import (
	"slices"
	"time"

	"seedbed"
)

// Snapshot is one snapshot of a volume. It is written to the tag before it is taken, so that a
// snapshot that a crash leaves is known to be ours.
type Snapshot struct {
	Name    string        `json:"name"`
	Job     seedbed.JobID `json:"job"`
	Created time.Time     `json:"created"`
	Ready   bool          `json:"ready"` // it has been taken
	// Size is the volume's at that time, in bytes; 0 in tags of older releases.
	Size int64 `json:"size,omitempty"`
	// Consistency is empty in tags of older releases.
	Consistency seedbed.Consistency `json:"consistency,omitempty"`
}

// NewSnapshot returns the record of a snapshot of the volume that is about to be taken.
func (t *Tag) NewSnapshot(spec seedbed.SnapshotSpec, job seedbed.JobID) Snapshot {
	return Snapshot{Name: spec.Name, Job: job, Created: time.Now().UTC().Truncate(time.Microsecond), Size: t.Size,
		Consistency: spec.Consistency}
}

// Info describes the snapshot.
func (s Snapshot) Info() seedbed.SnapshotInfo {
	return seedbed.SnapshotInfo{Name: s.Name, Job: s.Job, Created: s.Created, Size: seedbed.Bytes(s.Size), Consistency: s.Consistency}
}

// Find returns the index of a snapshot in the tag, or -1.
func (t *Tag) Find(snapshot string) int {
	return slices.IndexFunc(t.Snapshots, func(s Snapshot) bool { return s.Name == snapshot })
}

// Taken describes the snapshots that have been taken.
func (t *Tag) Taken() []seedbed.SnapshotInfo {
	var all []seedbed.SnapshotInfo
	for _, s := range t.Snapshots {
		if s.Ready {
			all = append(all, s.Info())
		}
	}
	return all
}

// FindToTake returns the index of a snapshot that the job is to take, or -1 if the job has not begun
// it. It returns ErrExists if another job has that snapshot, and ErrFull if there can be no more.
func (t *Tag) FindToTake(pool, snapshot string, job seedbed.JobID) (int, error) {
	at := t.Find(snapshot)
	switch {
	case at >= 0 && t.Snapshots[at].Job != job:
		return at, seedbed.Errorf(seedbed.ErrExists, "snapshot %s of volume %s in pool %s exists: choose another name, or remove it first",
			snapshot, t.Name, pool)
	case at < 0 && len(t.Snapshots) >= seedbed.MaxSnapshots:
		return at, seedbed.Errorf(seedbed.ErrFull,
			"volume %s in pool %s has %d snapshots and can have no more: remove one first (seedbed vm snapshot remove)", t.Name, pool,
			len(t.Snapshots))
	}
	return at, nil
}

// FindToRestore returns ErrNotFound unless the volume has that snapshot, and it is finished.
func (t *Tag) FindToRestore(pool, snapshot string) error {
	if at := t.Find(snapshot); at < 0 || !t.Snapshots[at].Ready {
		return seedbed.Errorf(seedbed.ErrNotFound, "volume %s in pool %s has no snapshot %s", t.Name, pool, snapshot)
	}
	return nil
}

// FindToRemove returns the index of a snapshot that is to be removed, or -1 if there is none. It
// returns ErrConflict if of is not empty and another job took the snapshot.
func (t *Tag) FindToRemove(pool, snapshot string, of seedbed.JobID) (int, error) {
	at := t.Find(snapshot)
	if at >= 0 && of != "" && t.Snapshots[at].Job != of {
		return at, seedbed.Errorf(seedbed.ErrConflict, "snapshot %s of volume %s in pool %s was taken by job %s: it is not removed", snapshot,
			t.Name, pool, t.Snapshots[at].Job)
	}
	return at, nil
}
