package metadata

import "maps"

// parted is a map in parts, so that a changed copy shares most parts. It must not change once it is
// part of an index.
type parted[K comparable, V any] struct {
	parts [256]map[K]V
}

func (m *parted[K, V]) at(part byte, k K) (V, bool) {
	v, ok := m.parts[part][k]
	return v, ok
}

// partedDraft is a copy that is being changed.
type partedDraft[K comparable, V any] struct {
	parted[K, V]
	fresh [256]bool // parts that are copies already
}

func (m *parted[K, V]) draft() *partedDraft[K, V] {
	return &partedDraft[K, V]{parted: *m}
}

func (d *partedDraft[K, V]) part(i byte) map[K]V {
	if !d.fresh[i] {
		d.fresh[i] = true
		if d.parts[i] = maps.Clone(d.parts[i]); d.parts[i] == nil {
			d.parts[i] = map[K]V{}
		}
	}
	return d.parts[i]
}
