package store

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Tx is a transaction in which a statement whose result nobody needs can be
// deferred (Later). Deferred statements run, in their order, before the next
// statement that is not, or the commit. PostgreSQL is sent all of them at once.
type Tx struct {
	*sql.Tx
	// conn is the transaction's connection to PostgreSQL; nil on SQLite.
	conn  *sql.Conn
	later []statement
	// sent counts the deferred statements that have run, and direct the other
	// statements that may have written something.
	sent, direct int
}

// statement is a deferred one: a query, or a row that is added to a table.
type statement struct {
	query string
	into  string
	args  []any
}

// Later runs a statement when its turn comes: its error is that of a later call.
func (tx *Tx) Later(query string, args ...any) {
	tx.later = append(tx.later, statement{query: query, args: args})
}

// add adds a row when its turn comes; into is the table with its columns. A row that is
// there already is then an error. Rows that are added one after the other are
// written together, those of each table at once, a table after those that it refers to (addOrder).
func (tx *Tx) add(into string, row ...any) {
	tx.later = append(tx.later, statement{into: into, args: row})
}

// Flush runs what was deferred.
func (tx *Tx) Flush(ctx context.Context) error {
	all := tx.later
	tx.later, tx.sent = nil, tx.sent+len(all)
	most := sharedMost
	if tx.conn == nil {
		most = 1 // where there is no way there and back, few parameters cost less
	}
	if all = grouped(all, most); len(all) == 0 {
		return nil
	}
	if tx.conn == nil || len(all) == 1 {
		for _, s := range all {
			if _, err := tx.Tx.ExecContext(ctx, s.query, s.args...); err != nil {
				return err
			}
		}
		return nil
	}
	var batch pgx.Batch
	for _, s := range all {
		batch.Queue(s.query, s.args...)
	}
	return tx.conn.Raw(func(c any) error { return c.(*stdlib.Conn).Conn().SendBatch(ctx, &batch).Close() })
}

// ExecContext flushes and runs a statement.
func (tx *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := tx.Flush(ctx); err != nil {
		return nil, err
	}
	tx.direct++
	return tx.Tx.ExecContext(ctx, query, args...)
}

// QueryContext flushes and runs a query.
func (tx *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := tx.Flush(ctx); err != nil {
		return nil, err
	}
	tx.count(query)
	return tx.Tx.QueryContext(ctx, query, args...)
}

// QueryRowContext flushes and runs a query for one row.
func (tx *Tx) QueryRowContext(ctx context.Context, query string, args ...any) Row {
	if err := tx.Flush(ctx); err != nil {
		return failedRow{err}
	}
	tx.count(query)
	return tx.Tx.QueryRowContext(ctx, query, args...)
}

// lockRow locks the row of an UPDATE … RETURNING text that changes nothing, if there is one.
func (tx *Tx) lockRow(ctx context.Context, query string, args ...any) error {
	_, err := lockOne(ctx, tx, value[string], nil, query, args...)
	return err
}

// count notes a query that may write something.
func (tx *Tx) count(query string) {
	if !strings.HasPrefix(strings.TrimSpace(query), "SELECT") {
		tx.direct++
	}
}

// failedRow is the row of a query that could not be run.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// mark is a point of a transaction.
type mark struct{ deferred, direct int }

func (tx *Tx) mark() mark { return mark{tx.sent + len(tx.later), tx.direct} }

// back forgets what was deferred since m. It reports whether that undoes
// everything since: nothing else was written, and nothing deferred has run.
func (tx *Tx) back(m mark) bool {
	if tx.sent > m.deferred || tx.direct != m.direct {
		return false
	}
	tx.later = tx.later[:m.deferred-tx.sent]
	return true
}
