package ceph

import (
	"encoding/binary"
	"errors"
)

// The OSDs' class "rbd" (cls_rbd) uses Ceph's encoding: integers are little-endian, and a text or
// list follows its length in 32 bits.

// noSnapshot is the snapshot ID of the image itself (CEPH_NOSNAP in Ceph's rados.h).
const noSnapshot = ^uint64(1)

// errAnswer is returned if a method's answer does not have the form that it has in every release.
var errAnswer = errors.New("the OSDs' class rbd gave an answer that cannot be read")

func encodeNumber(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

func encodeTexts(texts ...string) []byte {
	var b []byte
	for _, t := range texts {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t)))
		b = append(b, t...)
	}
	return b
}

// encodePair encodes a map with one entry.
func encodePair(key, value string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, 1), encodeTexts(key, value)...)
}

// answer is the part of a method's answer that is not read yet.
type answer struct {
	rest  []byte
	short bool // the answer ended too early
}

func (a *answer) take(n uint32) []byte {
	if a.short = a.short || uint64(n) > uint64(len(a.rest)); a.short {
		return make([]byte, 8)
	}
	b := a.rest[:n]
	a.rest = a.rest[n:]
	return b
}

func (a *answer) small() uint8   { return a.take(1)[0] }
func (a *answer) count() uint32  { return binary.LittleEndian.Uint32(a.take(4)) }
func (a *answer) number() uint64 { return binary.LittleEndian.Uint64(a.take(8)) }

// parseText reads the answer of get_id or metadata_get.
func parseText(b []byte) (string, error) {
	a := answer{rest: b}
	text := string(a.take(a.count()))
	if a.short {
		return "", errAnswer
	}
	return text, nil
}

// shape describes an RBD image.
type shape struct {
	order     uint8 // its data is in objects of 1<<order bytes
	size      uint64
	features  uint64 // bits RBD_FEATURE_…
	snapshots uint32 // their number
}

// parseShape reads the answers of get_size, get_features and get_snapcontext.
func parseShape(size, features, snapshots []byte) (shape, error) {
	s := shape{}
	a, b, c := answer{rest: size}, answer{rest: features}, answer{rest: snapshots}
	s.order, s.size = a.small(), a.number()
	s.features = b.number()
	c.number() // the highest snapshot ID so far
	s.snapshots = c.count()
	if a.short || b.short || c.short || s.order >= 64 {
		return shape{}, errAnswer
	}
	return s, nil
}

// objects returns how many objects hold that many bytes, if the data is not striped.
func (s shape) objects(size uint64) uint64 {
	each := uint64(1) << s.order
	return (size + each - 1) / each
}
