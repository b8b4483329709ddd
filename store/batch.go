package store

import (
	"context"
	"errors"

	"seedbed"
)

// batchKey is where the transaction of a batch travels with its context.
type batchKey struct{}

// batchOf is the transaction that ctx belongs to; nil outside of a batch.
func batchOf(ctx context.Context) *Tx {
	tx, _ := ctx.Value(batchKey{}).(*Tx)
	return tx
}

// batch runs fn in one writing transaction: with the context that it is given,
// every method of db, and whoever calls them, reads and writes in that
// transaction. A method that fails undoes what it wrote itself and no more. fn
// may run more than once.
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

// inBatch is update for a method that is called in a batch.
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

// viewBatch is batch for what only reads, and sees one state throughout.
func (db *DB) viewBatch(ctx context.Context, what string, fn func(context.Context) error) error {
	return db.view(ctx, what, func(tx *Tx) error { return fn(context.WithValue(ctx, batchKey{}, tx)) })
}
