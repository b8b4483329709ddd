package ceph

import (
	"slices"
	"time"

	"seedbed"
)

// volumeSnapshot is one snapshot of a volume. It is written to the tag before it is taken, so that
// a snapshot that a crash leaves is known to be ours.
type volumeSnapshot struct {
	Name    string        `json:"name"`
	Job     seedbed.JobID `json:"job"`
	Created time.Time     `json:"created"`
	Ready   bool          `json:"ready"` // it has been taken
}

func (s volumeSnapshot) info() seedbed.SnapshotInfo {
	return seedbed.SnapshotInfo{Name: s.Name, Job: s.Job, Created: s.Created}
}

// trashMark says when a volume was removed, and when it is purged.
type trashMark struct {
	Removed time.Time `json:"removed"`
	Expires time.Time `json:"expires"`
}

// clone reports whether the volume reads blocks that it has not written from an image.
func (t *tag) clone() bool { return t.Image != "" && !t.Flat }

// find returns the index of a snapshot in the tag, or -1.
func (t *tag) find(name string) int {
	return slices.IndexFunc(t.Snapshots, func(s volumeSnapshot) bool { return s.Name == name })
}
