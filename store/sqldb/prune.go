package sqldb

import (
	"context"
	"time"
)

// Count returns the result of a query for a number whose only argument is a time.
func (db *DB) Count(ctx context.Context, what, query string, before time.Time) (n int, err error) {
	err = db.View(ctx, what, func(tx *Tx) error {
		n, err = Value[int](tx.QueryRowContext(ctx, query, before.UnixMicro()))
		return err
	})
	return n, err
}

// Drop runs a statement that deletes rows, whose only argument is a time, and returns how many it
// deleted.
func (db *DB) Drop(ctx context.Context, what, query string, before time.Time) (n int, err error) {
	err = db.Update(ctx, what, func(tx *Tx) error {
		n, err = Affect(ctx, tx, query, before.UnixMicro())
		if err == nil && n == 0 {
			return ErrUnchanged
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
