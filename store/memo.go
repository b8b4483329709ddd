package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// memo remembers what was read from rows that seldom change, as long as nothing
// was written that may have changed one: every write counts for that but those
// that are known not to. Values are shared, and must not be changed.
type memo struct {
	// writes counts what may have changed a remembered row.
	writes atomic.Int64
	// deaf is true while writes of other processes may go unnoticed.
	deaf atomic.Bool

	mu     sync.Mutex
	at     int64
	values map[memoKey]any
}

// memoKey names what is remembered.
type memoKey struct{ kind, name string }

// memoMost bounds what is remembered: strangers choose names.
const memoMost = 1024

// memoized is what read gave last, unless something was written since. Errors
// are not remembered, nor is what a batch reads.
func memoized[T any](ctx context.Context, db *DB, key memoKey, read func() (T, error)) (T, error) {
	m := &db.memo
	if m.deaf.Load() || db.closed.Load() || batchOf(ctx) != nil {
		return read()
	}
	now := m.writes.Load() // before reading: what is written meanwhile ends it
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
