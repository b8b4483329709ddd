package store

import (
	"context"
	"errors"

	"seedbed"
)

// batchKey is the context key of a batch's transaction.
type batchKey struct{}

// batchOf returns the transaction that ctx belongs to, or nil outside a batch.
func batchOf(ctx context.Context) *Tx {
	tx, _ := ctx.Value(batchKey{}).(*Tx)
	return tx
}

// batch runs fn in one writing transaction. Every method of db that is called with fn's context,
// directly or not, reads and writes in that transaction. A method that fails undoes only its own
// writes. fn may run more than once.
func (db *DB) batch(ctx context.Context, what string, fn func(context.Context) error) error {
	changed, err := db.change(ctx, what, func(tx *Tx) error {
		if err := fn(context.WithValue(ctx, batchKey{}, tx)); err != nil {
			return err
		}
		return db.announce(ctx, tx)
	})
	if changed {
		db.wake()
	}
	return err
}

// inBatch is the form of update for a method that is called in a batch.
func (db *DB) inBatch(ctx context.Context, tx *Tx, what string, fn func(*Tx) error) error {
	err := savepoint(ctx, tx, func() error {
		if err := fn(tx); err != nil {
			return err
		}
		audit(tx, seedbed.ChangeOf(ctx), what)
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// viewBatch is the form of batch for reading only. All reads see one state of the database.
func (db *DB) viewBatch(ctx context.Context, what string, fn func(context.Context) error) error {
	return db.view(ctx, what, func(tx *Tx) error { return fn(context.WithValue(ctx, batchKey{}, tx)) })
}
