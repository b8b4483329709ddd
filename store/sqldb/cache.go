package sqldb

import (
	"context"
	"sync"
	"sync/atomic"
)

// cache holds values read from rows that seldom change. A value is valid until the next write that
// may have changed such a row; every write counts except those known not to. Values are shared and
// must not be changed.
type cache struct {
	// writes counts the writes that may have changed a cached row.
	writes atomic.Int64
	// deaf is true while this process may miss writes of other processes.
	deaf atomic.Bool

	mu     sync.Mutex
	at     int64
	values map[cacheKey]any
}

// cacheKey identifies a cached value.
type cacheKey struct{ kind, name string }

// cacheMost is the largest number of cached values. It is bounded because clients choose names.
const cacheMost = 1024

// Listens reports whether this process hears of the writes of others, so that it may cache.
func (db *DB) Listens() bool { return !db.cache.deaf.Load() }

// Forget invalidates everything that is cached.
func (db *DB) Forget() { db.cache.writes.Add(1) }

// Cached returns the cached value of read, unless something was written since. Errors are not
// cached, nor is what a batch reads.
func Cached[T any](ctx context.Context, db *DB, kind, name string, read func() (T, error)) (T, error) {
	m, key := &db.cache, cacheKey{kind, name}
	if m.deaf.Load() || db.closed.Load() || BatchOf(ctx) != nil {
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
	case m.at < now || m.values == nil || len(m.values) >= cacheMost:
		m.at, m.values = now, map[cacheKey]any{}
	case m.at > now:
		return t, nil
	}
	m.values[key] = t
	return t, nil
}
