package store

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"seedbed"
)

// errUnchanged ends a transaction that has nothing to write. The transaction is rolled back, no one
// is woken, and the method succeeds.
var errUnchanged = errors.New("unchanged")

// update runs fn in a writing transaction, and wakes the goroutines that wait for a write.
func (db *DB) update(ctx context.Context, what string, fn func(*Tx) error) error {
	if tx := batchOf(ctx); tx != nil {
		return db.inBatch(ctx, tx, what, fn)
	}
	changed, err := db.change(ctx, what, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		audit(tx, seedbed.ChangeOf(ctx), what)
		return db.announce(ctx, tx)
	})
	if changed {
		db.wake()
	}
	return err
}

// change runs fn in a writing transaction and reports whether it was committed. It wakes no one.
func (db *DB) change(ctx context.Context, what string, fn func(*Tx) error) (changed bool, err error) {
	err = db.transact(ctx, fn)
	if !errors.Is(err, errUnchanged) {
		db.cache.writes.Add(1) // even after an error, because the commit may have succeeded
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errUnchanged):
		return false, nil
	}
	return false, db.fail(ctx, what, err)
}

// view runs fn in a read-only transaction that sees one state of the database.
func (db *DB) view(ctx context.Context, what string, fn func(*Tx) error) error {
	if tx := batchOf(ctx); tx != nil {
		return fn(tx)
	}
	if err := db.retry(ctx, db.read, db.dialect.reading, fn); err != nil {
		return db.fail(ctx, what, err)
	}
	return nil
}

// announce notifies the other processes that use the database, at the commit, that something was
// written.
func (db *DB) announce(ctx context.Context, tx *Tx) error {
	if db.dialect.announce == "" {
		return nil
	}
	return exec(ctx, tx, db.dialect.announce, db.name)
}

// transact runs fn in a writing transaction, without waking, announcing or recording anything. Its
// error has no kind yet; see fail.
func (db *DB) transact(ctx context.Context, fn func(*Tx) error) error {
	return db.retry(ctx, db.write, db.dialect.writing, fn)
}

// retry runs fn in a transaction. It runs fn again if the transaction conflicted with others, or
// if the connection broke before the commit. The effects of fn outside the transaction must not
// depend on how often it ran.
func (db *DB) retry(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, fn func(*Tx) error) error {
	if db.dialect.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.dialect.limit)
		defer cancel()
	}
	for n := 1; ; n++ {
		committing, err := db.attempt(ctx, pool, opts, fn)
		if err == nil || n >= db.dialect.tries || ctx.Err() != nil || !db.again(err, committing, n) {
			return err
		}
		// The delay is random, so that transactions that conflicted do not conflict again.
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(time.Millisecond) << min(n, 8)))):
		case <-ctx.Done():
			return err
		}
	}
}

// attempt runs fn in a transaction once. After an error with committing set, the transaction may
// have been committed.
func (db *DB) attempt(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, fn func(*Tx) error) (committing bool, err error) {
	tx, end, err := db.begin(ctx, pool, opts)
	if err != nil {
		return false, err
	}
	defer end()
	if err := fn(tx); err != nil {
		return false, err
	}
	if err := tx.Flush(ctx); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// begin starts a transaction. end rolls it back unless it was committed.
func (db *DB) begin(ctx context.Context, pool *sql.DB, opts *sql.TxOptions) (_ *Tx, end func(), err error) {
	if !db.dialect.server {
		tx, err := pool.BeginTx(ctx, opts)
		if err != nil {
			return nil, nil, err
		}
		return &Tx{Tx: tx}, func() { tx.Rollback() }, nil
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx, err := conn.BeginTx(ctx, opts)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return &Tx{Tx: tx, conn: conn}, func() { tx.Rollback(); conn.Close() }, nil
}

// again reports whether a transaction that failed for the nth time may run again.
func (db *DB) again(err error, committing bool, n int) bool {
	if e := (*seedbed.Error)(nil); errors.As(err, &e) || errors.Is(err, errUnchanged) || db.closed.Load() {
		return false
	}
	if errors.Is(err, errAgain) {
		return true
	}
	switch db.dialect.cause(err) {
	case causeAgain:
		return true
	case causeUnavailable:
		return !committing
	case causeUnique, causeForeignKey:
		// Another transaction may have written between two statements. Otherwise it fails again.
		return n < 3
	}
	return false
}

// Row is the result of a query for one row.
type Row interface{ Scan(dest ...any) error }

// one reads the only row of a query. It returns missing if there is no row, or if an argument
// cannot be stored in a text column.
func one[T any](ctx context.Context, tx *Tx, scan func(Row) (T, error), missing error, query string, args ...any) (T, error) {
	v, err := scan(tx.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) || missing != nil && unstorable(err) {
		err = missing
	}
	return v, err
}

// lockOne is one for an UPDATE … RETURNING that only locks the row and changes nothing.
func lockOne[T any](ctx context.Context, tx *Tx, scan func(Row) (T, error), missing error, query string, args ...any) (T, error) {
	v, err := one(ctx, tx, scan, missing, query, args...)
	tx.direct--
	return v, err
}

// list reads every row of a query. The result is never nil, so that its JSON is a list.
func list[T any](ctx context.Context, tx *Tx, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// value scans a row of one column.
func value[T any](r Row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

func exec(ctx context.Context, tx *Tx, query string, args ...any) error {
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

// affect runs a statement and returns how many rows it affected.
func affect(ctx context.Context, tx *Tx, query string, args ...any) (int, error) {
	r, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// bound returns limit if it is between 1 and most, and otherwise most.
func bound(limit, most int) int {
	if limit < 1 || limit > most {
		return most
	}
	return limit
}

// orUnchanged returns err, or errUnchanged if err is nil.
func orUnchanged(err error) error {
	if err == nil {
		return errUnchanged
	}
	return err
}
