package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// memo caches values read from rows that seldom change. A value is valid until the next write that
// may have changed such a row; every write counts except those known not to. Values are shared and
// must not be changed.
type memo struct {
	// writes counts the writes that may have changed a cached row.
	writes atomic.Int64
	// deaf is true while this process may miss writes of other processes.
	deaf atomic.Bool

	mu     sync.Mutex
	at     int64
	values map[memoKey]any
}

// memoKey identifies a cached value.
type memoKey struct{ kind, name string }

// memoMost is the largest number of cached values. It is bounded because clients choose names.
const memoMost = 1024

// memoized returns the cached value of read, unless something was written since. Errors are not
// cached, nor is what a batch reads.
func memoized[T any](ctx context.Context, db *DB, key memoKey, read func() (T, error)) (T, error) {
	m := &db.memo
	if m.deaf.Load() || db.closed.Load() || batchOf(ctx) != nil {
		return read()
	}
	now := m.writes.Load() // before the read: a concurrent write invalidates its result
	m.mu.Lock()
	v, ok := m.values[key]
	ok = ok && m.at == now
	m.mu.Unlock()
	if ok {
		return v.(T), nil
	}
	t, err := read()
	if err != nil {
		return t, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.at < now || m.values == nil || len(m.values) >= memoMost:
		m.at, m.values = now, map[memoKey]any{}
	case m.at > now:
		return t, nil
	}
	m.values[key] = t
	return t, nil
}
