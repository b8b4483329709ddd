package ceph

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"seedbed"
)

// tag says whose an RBD image is. It is JSON under tagKey in the image-meta,
// one value, so that it changes as a whole.
type tag struct {
	Seedbed  int                `json:"seedbed"` // tagVersion
	Role     role               `json:"role"`
	Name     string             `json:"name"`
	State    state              `json:"state"`
	Node     string             `json:"node"` // that made it
	Job      seedbed.JobID      `json:"job"`
	Instance seedbed.InstanceID `json:"instance,omitempty"` // of a volume
	Image    string             `json:"image,omitempty"`    // that a volume is a clone of
	Size     int64              `json:"size"`               // virtual, in bytes
	Format   string             `json:"format,omitempty"`   // of the file that an image was imported from
	SHA256   string             `json:"sha256,omitempty"`   // of that file
	Firmware seedbed.Firmware   `json:"firmware,omitempty"` // by the OVA that an image is from

	// Made is the size that a volume was made with, once it has grown.
	Made int64 `json:"made,omitempty"`

	Flat      bool             `json:"flat,omitempty"`      // a volume that shares nothing with its image any more
	Snapshots []volumeSnapshot `json:"snapshots,omitempty"` // of a volume
	// Trash is set for a volume in RBD's trash, and stays when it comes back.
	Trash *trashMark `json:"trash,omitempty"`
}

// role is what an RBD image is to us.
type role string

const (
	roleImage  role = "image"
	roleVolume role = "volume"
)

// state is how far it is.
type state string

const (
	stateBuilding state = "building" // not to be used; its node removes it, or another when that has abandoned it
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

// rbdName is what a volume or image of that name is called in the pool.
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

// buildingName is a name for something that node is about to make; no two are the same.
func buildingName(node string) string { return building + node + "." + rand.Text() }

// builder is the node that a name is a buildingName of. Nodes may have dots in their names; the random part has none.
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

// parseTag reads the tag of the RBD image of that name: nil for what is somebody
// else's, or another image's tag, which a clone starts with.
func parseTag(rbdName, text string) (*tag, error) {
	t := new(tag)
	if err := json.Unmarshal([]byte(text), t); err != nil || t.Seedbed == 0 {
		return nil, nil
	}
	if t.Seedbed != tagVersion {
		return nil, seedbed.Errorf(seedbed.ErrVersion, "the tag of %s was written by a newer release (version %d, this one knows %d)", rbdName, t.Seedbed, tagVersion)
	}
	return t, nil
}

// names tells whether the tag is that of the RBD image of that name.
func (t *tag) names(rbdName string) bool {
	return t != nil && t.Role.rbdName(t.Name) == rbdName
}

func (t *tag) String() string { return fmt.Sprintf("%s %s", t.Role, t.Name) }

// had tells whether the volume has that size, or had it before it grew.
func (t *tag) had(size int64) bool {
	return size == t.Size || t.Made != 0 && size >= t.Made && size < t.Size
}
