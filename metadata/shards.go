package metadata

import "maps"

// shards is a map in 256 parts, so that a changed copy shares most of them. It must not change once
// it belongs to an index.
type shards[K comparable, V any] struct {
	all [256]map[K]V
}

func (m *shards[K, V]) get(part byte, k K) (V, bool) {
	v, ok := m.all[part][k]
	return v, ok
}

// shardsBuilder is a copy that is being changed.
type shardsBuilder[K comparable, V any] struct {
	shards[K, V]
	copied [256]bool // shards that are copies already
}

func (m *shards[K, V]) builder() *shardsBuilder[K, V] {
	return &shardsBuilder[K, V]{shards: *m}
}

func (b *shardsBuilder[K, V]) shard(i byte) map[K]V {
	if !b.copied[i] {
		b.copied[i] = true
		if b.all[i] = maps.Clone(b.all[i]); b.all[i] == nil {
			b.all[i] = map[K]V{}
		}
	}
	return b.all[i]
}
