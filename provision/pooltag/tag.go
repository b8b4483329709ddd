// Package pooltag is what a pool writes down about each of its volumes and images, and the rules
// that follow from that record alone. They are the same for every type of pool.
package pooltag

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
)

// Version is the version of the tags that this release writes, and the only one that it reads.
const Version = 1

// Tag says to whom a volume or image belongs. It is stored as JSON, as one value, so that it changes
// as a whole. Installations have stored tags: the JSON must not change.
type Tag struct {
	Seedbed  int                `json:"seedbed"`        // Version; it distinguishes a tag from other JSON
	Role     Role               `json:"role,omitempty"` // only in Ceph, as State and Node are
	Name     string             `json:"name"`
	State    State              `json:"state,omitempty"`
	Node     string             `json:"node,omitempty"` // that made the RBD image
	Job      seedbed.JobID      `json:"job"`
	Instance seedbed.InstanceID `json:"instance,omitempty"` // owner of a volume
	// Project is the name of the project of the instance, or of the job that imported the image. It is
	// empty in tags of releases without projects, which ignore it when they read a tag.
	Project  string           `json:"project,omitempty"`
	Image    string           `json:"image,omitempty"`    // of which the volume is a clone
	From     string           `json:"from,omitempty"`     // the volume of which it is a copy
	Size     int64            `json:"size"`               // virtual, in bytes
	Format   string           `json:"format,omitempty"`   // of the file from which an image was imported
	SHA256   string           `json:"sha256,omitempty"`   // of that file
	Firmware seedbed.Firmware `json:"firmware,omitempty"` // according to the image's OVA

	// Made is the size at which a volume was made, once it has grown.
	Made int64 `json:"made,omitempty"`

	Flat      bool       `json:"flat,omitempty"`      // a volume that no longer shares data with its image
	Snapshots []Snapshot `json:"snapshots,omitempty"` // of a volume
	// Trash is set for a volume in the trash, and remains when it is restored.
	Trash *TrashMark `json:"trash,omitempty"`
}

// Role is what an RBD image is for. A directory keeps images and volumes apart instead.
type Role string

// The roles of RBD images.
const (
	RoleImage  Role = "image"
	RoleVolume Role = "volume"
)

// State is how far the work on an RBD image is. A directory has only finished files.
type State string

// The states of RBD images.
const (
	StateBuilding State = "building" // not usable; removed by its node, or by another once abandoned
	StateReady    State = "ready"
	StateRemoving State = "removing" // an image whose removal has begun
)

// Marshal returns the stored form of the tag.
func (t Tag) Marshal() (string, error) {
	t.Seedbed = Version
	b, err := json.Marshal(t)
	return string(b), err
}

// Parse reads a stored tag, which what names in messages. It returns nil for JSON that is not a tag,
// and ErrVersion for a tag of a newer release.
func Parse(what, stored string) (*Tag, error) {
	t := new(Tag)
	if err := json.Unmarshal([]byte(stored), t); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, nil // JSON of another form
		}
		return nil, fmt.Errorf("%s is not readable: %w", what, err)
	}
	switch t.Seedbed {
	case 0:
		return nil, nil
	case Version:
		return t, nil
	}
	return nil, seedbed.Errorf(seedbed.ErrVersion, "%s was written by a newer release (version %d, this one knows %d)", what, t.Seedbed,
		Version)
}

// Clone reports whether the volume reads blocks that it has not written from its image, or from the volume of which it becomes a copy.
func (t *Tag) Clone() bool { return t.Image+t.From != "" && !t.Flat }

// Grow sets the size of a volume.
func (t *Tag) Grow(size seedbed.Bytes) {
	t.Made, t.Size = cmp.Or(t.Made, t.Size), int64(size)
}

// had reports whether the volume has that size, or had it before it grew.
func (t *Tag) had(size int64) bool {
	return size == t.Size || t.Made != 0 && size >= t.Made && size < t.Size
}

// CheckOwner returns ErrConflict if the volume, which a call of that instance is to change or to
// use, belongs to another one.
func (t *Tag) CheckOwner(pool string, id seedbed.InstanceID) error {
	if id != "" && t.Instance == id {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s belongs to instance %s, not to %s: it is not changed", t.Name, pool,
		t.Instance, id)
}

// CheckInstance returns ErrConflict if the volume's name, which that instance asks for, is taken by
// another one.
func (t *Tag) CheckInstance(pool string, id seedbed.InstanceID) error {
	if t.Instance == id {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s belongs to instance %s", t.Name, pool, t.Instance)
}

// CheckSame returns ErrConflict unless the volume is the one that is wanted, so that making it a
// second time is already done.
func (t *Tag) CheckSame(pool string, want Tag) error {
	if err := t.CheckInstance(pool, want.Instance); err != nil {
		return err
	}
	if t.From != want.From {
		return seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s exists as a copy of %q, not of %q", t.Name, pool, t.From, want.From)
	}
	if t.Image != want.Image && !(t.Flat && want.Image == "") || !t.had(want.Size) {
		return seedbed.Errorf(seedbed.ErrConflict, "volume %s in pool %s exists with image %q and size %s, not image %q and size %s",
			t.Name, pool, t.Image, seedbed.Bytes(t.Size), want.Image, seedbed.Bytes(want.Size))
	}
	return nil
}

// CheckImporter returns ErrConflict if the image was imported by another job.
func (t *Tag) CheckImporter(pool string, job seedbed.JobID) error {
	if t.Job == job {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "image %s in pool %s was imported by job %s", t.Name, pool, t.Job)
}

// ImageInfo describes the image; it is zero for nil.
func (t *Tag) ImageInfo(pool string) seedbed.ImageInfo {
	if t == nil {
		return seedbed.ImageInfo{}
	}
	return seedbed.ImageInfo{
		Pool: pool, Name: t.Name, Project: t.Project, Job: t.Job, Size: seedbed.Bytes(t.Size), Format: t.Format, SHA256: t.SHA256,
		Firmware: t.Firmware,
	}
}

// VolumeInfo describes the volume, which hypervisors reach as disk.
func (t *Tag) VolumeInfo(pool string, disk seedbed.Disk) seedbed.VolumeInfo {
	return seedbed.VolumeInfo{
		Pool: pool, Name: t.Name, Instance: t.Instance, Project: t.Project, Job: t.Job, Size: seedbed.Bytes(t.Size), Disk: disk,
		Restored: t.Trash != nil,
	}
}
