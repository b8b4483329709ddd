package store

import (
	"context"
	"time"
)

func (db *DB) count(ctx context.Context, what, query string, before time.Time) (n int, err error) {
	err = db.view(ctx, what, func(tx *Tx) error {
		n, err = value[int](tx.QueryRowContext(ctx, query, before.UnixMicro()))
		return err
	})
	return n, err
}

func (db *DB) drop(ctx context.Context, what, query string, before time.Time) (n int, err error) {
	err = db.update(ctx, what, func(tx *Tx) error {
		n, err = affect(ctx, tx, query, before.UnixMicro())
		if err == nil && n == 0 {
			return errUnchanged
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
