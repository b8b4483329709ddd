package sqldb

import (
	"context"
	"errors"

	"seedbed"
)

// batchKey is the context key of a batch's transaction.
type batchKey struct{}

// BatchOf returns the transaction that ctx belongs to, or nil outside a batch.
func BatchOf(ctx context.Context) *Tx {
	tx, _ := ctx.Value(batchKey{}).(*Tx)
	return tx
}

// Batch runs fn in one writing transaction. Every method of db that is called with fn's context,
// directly or not, reads and writes in that transaction. A method that fails undoes only its own
// writes. fn may run more than once.
func (db *DB) Batch(ctx context.Context, what string, fn func(context.Context) error) error {
	changed, err := db.Change(ctx, what, func(tx *Tx) error {
		if err := fn(context.WithValue(ctx, batchKey{}, tx)); err != nil {
			return err
		}
		return db.Announce(ctx, tx)
	})
	if changed {
		db.Wake()
	}
	return err
}

// InBatch is the form of Update for a method that is called in a batch.
func (db *DB) InBatch(ctx context.Context, tx *Tx, what string, fn func(*Tx) error) error {
	err := Savepoint(ctx, tx, func() error {
		if err := fn(tx); err != nil {
			return err
		}
		db.audit(tx, seedbed.ChangeOf(ctx), what)
		return nil
	})
	if errors.Is(err, ErrUnchanged) {
		return nil
	}
	return err
}

// ViewBatch is the form of Batch for reading only. All reads see one state of the database.
func (db *DB) ViewBatch(ctx context.Context, what string, fn func(context.Context) error) error {
	return db.View(ctx, what, func(tx *Tx) error { return fn(context.WithValue(ctx, batchKey{}, tx)) })
}
