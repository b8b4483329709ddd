package ceph

import (
	"crypto/rand"
	"errors"
	"strings"

	"seedbed"
	"seedbed/provision/pooltag"
)

// A tag is stored in the image-meta of the RBD image that it describes, under tagKey.
type (
	tag   = pooltag.Tag
	role  = pooltag.Role
	state = pooltag.State
)

const (
	roleImage     = pooltag.RoleImage
	roleVolume    = pooltag.RoleVolume
	stateBuilding = pooltag.StateBuilding
	stateReady    = pooltag.StateReady
	stateRemoving = pooltag.StateRemoving
)

const (
	tagKey   = "seedbed"
	snapshot = "seedbed" // of an image; volumes are clones of it
	prefix   = "seedbed-"
	building = prefix + "building."
)

// rbdOf is the name of the RBD image of a volume or image.
func rbdOf(r role, name string) string { return prefix + string(r) + "." + pooltag.FileName(name) }

// split is the inverse of rbdOf; ok is false for other names.
func split(rbdName string) (r role, name string, ok bool) {
	for _, r := range []role{roleImage, roleVolume} {
		if name, ok := strings.CutPrefix(rbdName, rbdOf(r, "")); ok && name != "" {
			return r, pooltag.NameOf(name), true
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

// parseTag reads the tag of the RBD image of that name. It returns nil if the image is not ours. The
// tag may be another image's, as a clone has at first.
func parseTag(rbdName, text string) (*tag, error) {
	t, err := pooltag.Parse("the tag of "+rbdName, text)
	if err != nil && !errors.Is(err, seedbed.ErrVersion) {
		return nil, nil // not JSON: another program's
	}
	return t, err
}

// isTagOf reports whether the tag belongs to the RBD image of that name.
func isTagOf(t *tag, rbdName string) bool { return t != nil && rbdOf(t.Role, t.Name) == rbdName }
