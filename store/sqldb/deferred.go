package sqldb

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Tx is a transaction that can defer statements whose result is not needed (Later, Add), or only
// after the commit (LaterOne). They run before the next statement that is not deferred, or before
// the commit. On PostgreSQL they are all sent at once.
type Tx struct {
	*sql.Tx
	// conn is the transaction's connection to PostgreSQL, or nil on SQLite.
	conn  *sql.Conn
	later []statement
	// sent counts the deferred statements that have run. direct counts the other statements that
	// may have written.
	sent, direct int
}

// statement is a deferred statement: a query, or a row to add to a table.
type statement struct {
	query string
	into  Table
	args  []any
	read  func(Row) error // reads the only row of the result, if that is needed
}

// Later defers a statement. Such statements run in their order. If one fails, a later call returns
// its error.
func (tx *Tx) Later(query string, args ...any) {
	tx.later = append(tx.later, statement{query: query, args: args})
}

// LaterOne is One for a deferred query: it sets v when the query has run.
func LaterOne[T any](tx *Tx, v *T, scan func(Row) (T, error), missing error, query string, args ...any) {
	tx.later = append(tx.later, statement{query: query, args: args, read: func(r Row) (err error) {
		*v, err = scanOne(r, scan, missing)
		return err
	}})
}

// Add defers the insertion of a row. The insertion fails if the row exists. Added rows are written
// together, one statement for each table, and each table after those that it refers to. They are
// written before other deferred statements.
func (tx *Tx) Add(into Table, row ...any) {
	tx.later = append(tx.later, statement{into: into, args: row})
}

// rowsMost is the largest number of rows that one statement inserts.
const rowsMost = 64

// Flush runs the deferred statements.
func (tx *Tx) Flush(ctx context.Context) error {
	all := tx.later
	tx.later, tx.sent = nil, tx.sent+len(all)
	most := rowsMost
	if tx.conn == nil {
		most = 1 // without a network round trip, small statements cost less
	}
	if all = grouped(all, most); len(all) == 0 {
		return nil
	}
	if tx.conn == nil || len(all) == 1 {
		for _, s := range all {
			if err := tx.run(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}
	var batch pgx.Batch
	for _, s := range all {
		queued := batch.Queue(s.query, s.args...)
		if s.read != nil {
			queued.QueryRow(func(r pgx.Row) error { return s.read(r) })
		}
	}
	return tx.conn.Raw(func(c any) error { return c.(*stdlib.Conn).Conn().SendBatch(ctx, &batch).Close() })
}

// run runs one deferred statement.
func (tx *Tx) run(ctx context.Context, s statement) error {
	if s.read != nil {
		return s.read(tx.Tx.QueryRowContext(ctx, s.query, s.args...))
	}
	_, err := tx.Tx.ExecContext(ctx, s.query, s.args...)
	return err
}

// ExecContext flushes, and then runs a statement.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := tx.Flush(ctx); err != nil {
		return nil, err
	}
	tx.direct++
	return tx.Tx.ExecContext(ctx, query, args...)
}

// QueryContext flushes, and then runs a query.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := tx.Flush(ctx); err != nil {
		return nil, err
	}
	tx.count(query)
	return tx.Tx.QueryContext(ctx, query, args...)
}

// QueryRowContext flushes, and then runs a query for one row.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	if err := tx.Flush(ctx); err != nil {
		return failedRow{err}
	}
	tx.count(query)
	return tx.Tx.QueryRowContext(ctx, query, args...)
}

// LockRow locks the row that query updates, if there is one. query is an UPDATE … RETURNING of a
// text column, and changes nothing.
func (tx *Tx) LockRow(ctx context.Context, query string, args ...any) error {
	_, err := LockOne(ctx, tx, Value[string], nil, query, args...)
	return err
}

// count notes that a query may have written.
func (tx *Tx) count(query string) {
	if !strings.HasPrefix(strings.TrimSpace(query), "SELECT") {
		tx.direct++
	}
}

// failedRow is the row of a query that was not run.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// Mark is a point in a transaction.
type Mark struct{ deferred, direct int }

// Mark returns the point that the transaction is at.
func (tx *Tx) Mark() Mark { return Mark{tx.sent + len(tx.later), tx.direct} }

// Back drops the statements that were deferred since m. It reports whether that undoes everything
// since m, that is, whether no statement has run since then.
func (tx *Tx) Back(m Mark) bool {
	if tx.sent > m.deferred || tx.direct != m.direct {
		return false
	}
	tx.later = tx.later[:m.deferred-tx.sent]
	return true
}
