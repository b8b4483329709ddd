package sqldb

import (
	"context"
	"time"
)

func (db *DB) Count(ctx context.Context, what, query string, before time.Time) (n int, err error) {
	err = db.View(ctx, what, func(tx *Tx) error {
		n, err = Value[int](tx.QueryRowContext(ctx, query, before.UnixMicro()))
		return err
	})
	return n, err
}

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
