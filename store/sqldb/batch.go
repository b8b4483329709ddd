package sqldb

import (
	"context"
	"errors"

	"seedbed"
)

// Batch runs fn in one writing transaction, in which sessions may do what methods do otherwise in
// a transaction each; see [DB.In]. fn may run more than once.
func (db *DB) Batch(ctx context.Context, what string, fn func(*Tx) error) error {
	changed, err := db.Change(ctx, what, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return db.Announce(ctx, tx)
	})
	if changed {
		db.Wake()
	}
	return err
}

// Session runs functions in transactions: each in one of its own, or all of them in one that is
// given.
type Session struct {
	db *DB
	tx *Tx // nil: each in one of its own
}

// Session returns a session whose transactions are its own.
func (db *DB) Session() Session { return Session{db: db} }

// In returns a session that reads and writes in a transaction that exists, such as that of
// [DB.Batch] or [DB.View].
func (db *DB) In(tx *Tx) Session { return Session{db, tx} }

// Batch is [DB.Batch], for a session whose transactions are its own.
func (s Session) Batch(ctx context.Context, what string, fn func(*Tx) error) error {
	return s.db.Batch(ctx, what, fn)
}

// In is [DB.In].
func (s Session) In(tx *Tx) Session { return s.db.In(tx) }

// View is [DB.View], or runs fn in the session's transaction.
func (s Session) View(ctx context.Context, what string, fn func(*Tx) error) error {
	if s.tx != nil {
		return fn(s.tx)
	}
	return s.db.View(ctx, what, fn)
}

// Update is [DB.Update], or runs fn in the session's transaction. If fn fails there, only its own
// writes are undone.
func (s Session) Update(ctx context.Context, what string, fn func(*Tx) error) error {
	if s.tx == nil {
		return s.db.Update(ctx, what, fn)
	}
	err := Savepoint(ctx, s.tx, func() error {
		if err := fn(s.tx); err != nil {
			return err
		}
		s.db.audit(s.tx, seedbed.ChangeOf(ctx), what)
		return nil
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// CachedIn is [Cached], but what a session reads in a given transaction comes from there.
func CachedIn[T any](s Session, kind, name string, read func() (T, error)) (T, error) {
	if s.tx != nil {
		return read()
	}
	return Cached(s.db, kind, name, read)
}
