//go:build ceph

package ceph

import (
	"errors"

	"github.com/ceph/go-ceph/rbd"
)

// Opening an RBD image takes dozens of operations, and two dozen more for a clone. The functions in
// this file take one or two: the method calls that librbd makes in the end. See
// docs/decisions/0015-rbd-headers.md.

// plain is the set of features of images that may be changed without librbd. For the others this
// would be wrong: journaling, for example, writes each change to the journal first, from which a
// mirror learns of it.
const plain = rbd.FeatureLayering | rbd.FeatureExclusiveLock | rbd.FeatureObjectMap | rbd.FeatureFastDiff |
	rbd.FeatureDeepFlatten | rbd.FeatureDataPool | rbd.FeatureOperations

// header is the content of an RBD image's header object.
type header struct {
	shape
	id string
}

func (h header) plain() bool { return h.features&^plain == 0 }

// header reads the header of the RBD image of that name; ENOENT if it does not exist.
func (s *session) header(name string) (header, error) {
	id, err := s.idOf(name)
	if err != nil {
		return header{}, err
	}
	return s.headerOf(id)
}

// headerOf is like header for an image whose ID is known.
func (s *session) headerOf(id string) (header, error) {
	got, err := s.inspect(headerObject+id, method{"get_size", encodeNumber(noSnapshot)}, method{"get_features", encodeNumber(noSnapshot)},
		method{name: "get_snapcontext"})
	if err != nil {
		return header{}, err
	}
	h := header{id: id}
	h.shape, err = parseShape(got[0], got[1], got[2])
	return h, err
}

// readTag reads the tag of the RBD image of that name. there reports whether the image exists; the
// tag is nil if it has none.
func (s *session) readTag(name string) (t *tag, there bool, err error) {
	id, err := s.idOf(name)
	if err != nil {
		return nil, false, ignore(err, enoent)
	}
	return s.tagOf(name, id)
}

// tagOf is like readTag for an image whose ID is known, and which has, or had, that name.
func (s *session) tagOf(name, id string) (t *tag, there bool, err error) {
	got, err := s.inspect(headerObject+id, method{"get_features", encodeNumber(noSnapshot)}, method{"metadata_get", encodeTexts(tagKey)})
	if is(err, enoent) {
		return nil, len(got) > 0, nil
	}
	if err != nil {
		return nil, false, err
	}
	text, err := parseText(got[1])
	if err != nil {
		return nil, true, err
	}
	t, err = parseTag(name, text)
	return t, true, err
}

// setTag writes the tag of the RBD image of that name; ENOENT if it does not exist.
func (s *session) setTag(name string, t tag) error {
	h, err := s.header(name)
	if err != nil {
		return err
	}
	return s.writeTag(h, t)
}

// writeTag is like setTag for an image whose header was read.
func (s *session) writeTag(h header, t tag) error {
	text, err := t.Marshal()
	if err != nil {
		return err
	}
	if !h.plain() {
		return s.byID(h.id, func(img *rbd.Image) error { return img.SetMetadata(tagKey, text) })
	}
	return s.change(headerObject+h.id, tagMethod(text))
}

func tagMethod(text string) method { return method{"metadata_set", encodePair(tagKey, text)} }

// dropTag removes the tag from the RBD image of that name, even while it is in use.
func (s *session) dropTag(name string) error {
	h, err := s.header(name)
	if err != nil {
		return err
	}
	if !h.plain() {
		return s.byID(h.id, func(img *rbd.Image) error { return ignore(img.RemoveMetadata(tagKey), enoent) })
	}
	return ignore(s.change(headerObject+h.id, method{"metadata_remove", encodeTexts(tagKey)}), enoent)
}

// tagSized sets the size in the tag, and the tag itself, on an RBD image that only its caller knows
// of.
func (s *session) tagSized(h header, t tag) error {
	size := uint64(t.Size)
	if size == h.size {
		return s.writeTag(h, t)
	}
	text, err := t.Marshal()
	if err != nil {
		return err
	}
	if !h.plain() || size < h.size {
		return s.byID(h.id, func(img *rbd.Image) error {
			if err := img.Resize(size); err != nil {
				return err
			}
			return img.SetMetadata(tagKey, text)
		})
	}
	// The map comes first, as in librbd: a map that is too large is cut to size, one that is too
	// small is invalid.
	if h.features&rbd.FeatureObjectMap != 0 {
		const absent = 0 // the state of the new objects (OBJECT_NONEXISTENT)
		more := method{"object_map_resize", append(encodeNumber(h.objects(size)), absent)}
		if err := s.change(mapObject+h.id, more); err != nil {
			return err
		}
	}
	return s.change(headerObject+h.id, method{"set_size", encodeNumber(size)}, tagMethod(text))
}

// rename renames an RBD image; EEXIST if the name is taken. Its three steps are librbd's
// (librbd/operation/RenameRequest.h). Stopping after one of them leaves what a crash of librbd
// would leave.
func (s *session) rename(h header, from, to string) error {
	if !h.plain() {
		return rbd.GetImage(s.io, from).Rename(to)
	}
	if err := s.create(idObject+to, method{"set_id", encodeTexts(h.id)}); err != nil {
		return err
	}
	err := s.change(directory, method{"dir_rename_image", encodeTexts(from, to, h.id)})
	if is(err, eexist, enoent, estale) { // an interrupted removal left only this name, or our image was removed
		return errors.Join(err, s.unname(to, h.id))
	}
	if err != nil {
		return err
	}
	return ignore(s.io.Delete(idObject+from), enoent)
}

// byName is like byID for the RBD image of that name.
func (s *session) byName(name string, fn func(*rbd.Image) error) error {
	id, err := s.idOf(name)
	if err != nil {
		return err
	}
	return s.byID(id, fn)
}

// byID calls fn with the RBD image of that ID. If fn fails because our own connection holds the
// image's lock, byID removes the lock and calls fn again.
func (s *session) byID(id string, fn func(*rbd.Image) error) error {
	call := func() error {
		img, err := rbd.OpenImageById(s.io, id, rbd.NoSnapshot)
		if err != nil {
			return err
		}
		return errors.Join(fn(img), s.closeImage(img))
	}
	err := call()
	if !is(err, erofs) {
		return err
	}
	if dropped, e := s.dropLock(id); e != nil || !dropped {
		return errors.Join(err, e)
	}
	return call()
}
