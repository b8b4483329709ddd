package sqldb

import (
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

// cacheMost is the largest number of cached values: some for each of 2,000 projects. It is bounded because clients
// choose names.
const cacheMost = 1 << 14

// Listens reports whether this process hears of the writes of others, so that it may cache.
func (db *DB) Listens() bool { return !db.cache.deaf.Load() }

// Forget invalidates everything that is cached.
func (db *DB) Forget() { db.cache.writes.Add(1) }

// Cached returns the cached value of read, unless something was written since. Errors are not
// cached.
func Cached[T any](db *DB, kind, name string, read func() (T, error)) (T, error) {
	c, key := &db.cache, cacheKey{kind, name}
	if c.deaf.Load() || db.closed.Load() {
		return read()
	}
	now := c.writes.Load() // before the read: a concurrent write invalidates its result
	if v, ok := Known[T](db, kind, name); ok {
		return v, nil
	}
	return fill(c, now, key, read)
}

// Known returns the cached value that Cached would return without a read. ok is false if there is none.
func Known[T any](db *DB, kind, name string) (t T, ok bool) {
	c := &db.cache
	if c.deaf.Load() || db.closed.Load() {
		return t, false
	}
	now := c.writes.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.values[cacheKey{kind, name}]
	if !ok || c.at != now {
		return t, false
	}
	return v.(T), true
}

// Renewed calls read and caches its result in place of an older one, which another process's write
// may have made out of date. An error invalidates everything that is cached.
func Renewed[T any](db *DB, kind, name string, read func() (T, error)) (T, error) {
	c := &db.cache
	if c.deaf.Load() || db.closed.Load() {
		return read()
	}
	v, err := fill(c, c.writes.Load(), cacheKey{kind, name}, read)
	if err != nil {
		db.Forget()
	}
	return v, err
}

// fill caches the result of read, unless something was written since now.
func fill[T any](c *cache, now int64, key cacheKey, read func() (T, error)) (T, error) {
	t, err := read()
	if err != nil {
		return t, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.at < now || c.values == nil || len(c.values) >= cacheMost:
		c.at, c.values = now, map[cacheKey]any{}
	case c.at > now:
		return t, nil
	}
	c.values[key] = t
	return t, nil
}
