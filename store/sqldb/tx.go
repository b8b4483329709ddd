package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"seedbed"
)

// ErrUnchanged ends a transaction that has nothing to write. The transaction is rolled back, no one
// is woken, and the method succeeds.
var ErrUnchanged = errors.New("unchanged")

// Update runs fn in a writing transaction, and wakes the goroutines that wait for a write.
func (db *DB) Update(ctx context.Context, what string, fn func(*Tx) error) error {
	changed, err := db.Change(ctx, what, func(tx *Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		db.audit(tx, seedbed.ChangeOf(ctx), what)
		return db.Announce(ctx, tx)
	})
	if changed {
		db.Wake()
	}
	return err
}

// Change runs fn in a writing transaction and reports whether it was committed. It wakes no one.
func (db *DB) Change(ctx context.Context, what string, fn func(*Tx) error) (changed bool, err error) {
	err = db.Transact(ctx, fn)
	if !errors.Is(err, ErrUnchanged) {
		db.cache.writes.Add(1) // even after an error, because the commit may have succeeded
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrUnchanged):
		return false, nil
	}
	return false, db.Fail(ctx, what, err)
}

// View runs fn in a read-only transaction that sees one state of the database.
func (db *DB) View(ctx context.Context, what string, fn func(*Tx) error) error {
	if err := db.retry(ctx, db.Read, db.Dialect.reading, fn); err != nil {
		return db.Fail(ctx, what, err)
	}
	return nil
}

// Announce notifies the other processes that use the database, at the commit, that something was
// written.
func (db *DB) Announce(ctx context.Context, tx *Tx) error {
	if db.Dialect.Announce == "" {
		return nil
	}
	return Exec(ctx, tx, db.Dialect.Announce, db.name)
}

// Transact runs fn in a writing transaction, without waking, announcing or recording anything. Its
// error has no kind yet; see Fail.
func (db *DB) Transact(ctx context.Context, fn func(*Tx) error) error {
	return db.retry(ctx, db.Write, db.Dialect.Writing, fn)
}

// retry runs fn in a transaction. It runs fn again if the transaction conflicted with others, or
// if the connection broke before the commit. The effects of fn outside the transaction must not
// depend on how often it ran.
func (db *DB) retry(ctx context.Context, pool *sql.DB, opts *sql.TxOptions, fn func(*Tx) error) error {
	if db.Dialect.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.Dialect.limit)
		defer cancel()
	}
	for n := 1; ; n++ {
		committing, err := db.attempt(ctx, pool, opts, fn)
		if err == nil || n >= db.Dialect.Tries || ctx.Err() != nil || !db.again(err, committing, n) {
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
	if !db.Dialect.Server {
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
	if e := (*seedbed.Error)(nil); errors.As(err, &e) || errors.Is(err, ErrUnchanged) || db.closed.Load() {
		return false
	}
	if errors.Is(err, ErrAgain) {
		return true
	}
	switch db.Dialect.cause(err) {
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

// Pass returns the error of the first check that v, which was read in a transaction, does not pass.
func Pass[T any](v T, checks []func(T) error) error {
	for _, check := range checks {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// One reads the only row of a query. It returns missing if there is no row, or if an argument
// cannot be stored in a text column.
func One[T any](ctx context.Context, tx *Tx, scan func(Row) (T, error), missing error, query string, args ...any) (T, error) {
	return scanOne(tx.QueryRowContext(ctx, query, args...), scan, missing)
}

func scanOne[T any](r Row, scan func(Row) (T, error), missing error) (T, error) {
	v, err := scan(r)
	if errors.Is(err, sql.ErrNoRows) || missing != nil && Unstorable(err) {
		err = missing
	}
	return v, err
}

// InOrder calls lock once for each of the names, in their order. Transactions that lock the rows of
// several names in that way do not wait for each other in a circle.
func InOrder(names []string, lock func(name string) error) error {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := lock(name); err != nil {
			return err
		}
	}
	return nil
}

// LockOne is one for an UPDATE … RETURNING that only locks the row and changes nothing.
func LockOne[T any](ctx context.Context, tx *Tx, scan func(Row) (T, error), missing error, query string, args ...any) (T, error) {
	v, err := One(ctx, tx, scan, missing, query, args...)
	tx.direct--
	return v, err
}

// List reads every row of a query. The result is never nil, so that its JSON is a list.
func List[T any](ctx context.Context, tx *Tx, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
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

// Value scans a row of one column.
func Value[T any](r Row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// Exec runs a statement.
func Exec(ctx context.Context, tx *Tx, query string, args ...any) error {
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

// Affect runs a statement and returns how many rows it affected.
func Affect(ctx context.Context, tx *Tx, query string, args ...any) (int, error) {
	r, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}

// Bound returns limit if it is between 1 and most, and otherwise most.
func Bound(limit, most int) int {
	if limit < 1 || limit > most {
		return most
	}
	return limit
}

// OrUnchanged returns err, or ErrUnchanged if err is nil.
func OrUnchanged(err error) error {
	if err == nil {
		return ErrUnchanged
	}
	return err
}

// OrConflict returns err, or an ErrConflict with the given text if err is nil.
func OrConflict(err error, format string, args ...any) error {
	if err == nil {
		err = seedbed.Errorf(seedbed.ErrConflict, format, args...)
	}
	return err
}
