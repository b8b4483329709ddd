package sqldb

import (
	"context"
	"errors"
	"fmt"
)

// errBroken means that a savepoint itself failed. The state of the transaction is then unknown.
var errBroken = errors.New("savepoint")

// Savepoint runs fn. If fn fails, only its own writes are undone.
func Savepoint(ctx context.Context, tx *Tx, fn func() error) error {
	if err := Exec(ctx, tx, "SAVEPOINT one"); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	err := fn()
	if err == nil {
		err = tx.Flush(ctx)
	}
	if err != nil {
		tx.later = nil
		if broken := Exec(ctx, tx, "ROLLBACK TO SAVEPOINT one"); broken != nil {
			return fmt.Errorf("%w: %w", errBroken, errors.Join(err, broken))
		}
	}
	if broken := Exec(ctx, tx, "RELEASE SAVEPOINT one"); broken != nil {
		return fmt.Errorf("%w: %w", errBroken, broken)
	}
	return err
}
