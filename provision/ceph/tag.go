package ceph

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"seedbed"
)

// tag says to whom an RBD image belongs. It is JSON in the image-meta under tagKey: one value, so
// that it changes as a whole.
type tag struct {
	Seedbed  int                `json:"seedbed"` // tagVersion
	Role     role               `json:"role"`
	Name     string             `json:"name"`
	State    state              `json:"state"`
	Node     string             `json:"node"` // that made the image
	Job      seedbed.JobID      `json:"job"`
	Instance seedbed.InstanceID `json:"instance,omitempty"` // owner of a volume
	Image    string             `json:"image,omitempty"`    // of which the volume is a clone
	Size     int64              `json:"size"`               // virtual, in bytes
	Format   string             `json:"format,omitempty"`   // of the file from which an image was imported
	SHA256   string             `json:"sha256,omitempty"`   // of that file
	Firmware seedbed.Firmware   `json:"firmware,omitempty"` // according to the image's OVA

	// Made is the size at which a volume was made, once it has grown.
	Made int64 `json:"made,omitempty"`

	Flat      bool             `json:"flat,omitempty"`      // a volume that no longer shares data with its image
	Snapshots []volumeSnapshot `json:"snapshots,omitempty"` // of a volume
	// Trash is set for a volume in RBD's trash, and remains when it is restored.
	Trash *trashMark `json:"trash,omitempty"`
}

// role is what an RBD image is for.
type role string

const (
	roleImage  role = "image"
	roleVolume role = "volume"
)

// state is how far the work on an RBD image is.
type state string

const (
	stateBuilding state = "building" // not usable; removed by its node, or by another once abandoned
	stateReady    state = "ready"
	stateRemoving state = "removing" // an image whose removal has begun
)

const (
	tagKey     = "seedbed"
	tagVersion = 1
	snapshot   = "seedbed" // of an image; volumes are clones of it
	prefix     = "seedbed-"
	building   = prefix + "building."
)

// rbdName is the name of the RBD image of a volume or image.
func (r role) rbdName(name string) string { return prefix + string(r) + "." + name }

// split is the inverse of rbdName; ok is false for other names.
func split(rbdName string) (r role, name string, ok bool) {
	for _, r := range []role{roleImage, roleVolume} {
		if name, ok := strings.CutPrefix(rbdName, r.rbdName("")); ok && name != "" {
			return r, name, true
		}
	}
	return "", "", false
}

// buildingName returns a unique name for an image that node is about to make.
func buildingName(node string) string { return building + node + "." + rand.Text() }

// builder returns the node of a buildingName. Nodes may have dots in their names; the random part
// has none.
func builder(name string) (node string, ok bool) {
	rest, ok := strings.CutPrefix(name, building)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 1 || dot == len(rest)-1 {
		return "", false
	}
	return rest[:dot], true
}

func (t tag) marshal() (string, error) {
	t.Seedbed = tagVersion
	b, err := json.Marshal(t)
	return string(b), err
}

// parseTag reads the tag of the RBD image of that name. It returns nil if the image is not ours, or
// has another image's tag, as a clone has at first.
func parseTag(rbdName, text string) (*tag, error) {
	t := new(tag)
	if err := json.Unmarshal([]byte(text), t); err != nil || t.Seedbed == 0 {
		return nil, nil
	}
	if t.Seedbed != tagVersion {
		return nil, seedbed.Errorf(seedbed.ErrVersion, "the tag of %s was written by a newer release (version %d, this one knows %d)", rbdName,
			t.Seedbed, tagVersion)
	}
	return t, nil
}

// names reports whether the tag belongs to the RBD image of that name.
func (t *tag) names(rbdName string) bool {
	return t != nil && t.Role.rbdName(t.Name) == rbdName
}

func (t *tag) String() string { return fmt.Sprintf("%s %s", t.Role, t.Name) }

// had reports whether the volume has that size, or had it before it grew.
func (t *tag) had(size int64) bool {
	return size == t.Size || t.Made != 0 && size >= t.Made && size < t.Size
}
