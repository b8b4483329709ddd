package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
)

// preparing opens connections that keep the statements they have run prepared, because SQLite takes
// longer to parse most of our statements than to execute them.
type preparing struct {
	driver driver.Driver
	dsn    string
}

// Connect implements driver.Connector.
func (p preparing) Connect(context.Context) (driver.Conn, error) {
	c, err := p.driver.Open(p.dsn)
	if err != nil {
		return nil, err
	}
	return &preparedConn{sqliteConn: c.(sqliteConn), ready: map[string]*readyStmt{}}, nil
}

// Driver implements driver.Connector.
func (p preparing) Driver() driver.Driver { return p.driver }

// openPrepared is like sql.Open with the driver of db, and caches prepared statements.
func openPrepared(db *sql.DB, dsn string) *sql.DB {
	return sql.OpenDB(preparing{db.Driver(), dsn})
}

// sqliteConn is the set of interfaces of SQLite's connections that database/sql uses.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type preparedConn struct {
	sqliteConn
	ready map[string]*readyStmt
}

// readyMost is the largest number of statements that a connection caches. Requests cannot choose
// statements, but a migration runs more than this number; its statements make room for others.
const readyMost = 256

// readyStmt is a prepared statement. It is busy while its rows are read.
type readyStmt struct {
	driver.Stmt
	busy bool
}

// take returns the prepared statement of query, or nil if that is busy and the query must run
// without it.
func (c *preparedConn) take(ctx context.Context, query string) (*readyStmt, error) {
	if s := c.ready[query]; s != nil {
		if s.busy {
			return nil, nil
		}
		return s, nil
	}
	if len(c.ready) >= readyMost {
		c.clear()
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.ready[query] = &readyStmt{Stmt: s}
	return c.ready[query], nil
}

// clear closes the statements that are not busy.
func (c *preparedConn) clear() {
	for query, s := range c.ready {
		if !s.busy {
			s.Stmt.Close() // an error shows when the statement runs again
			delete(c.ready, query)
		}
	}
}

// ExecContext implements driver.ExecerContext.
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &readyRows{rows, s}, nil
}

// Close closes the statements and the connection.
func (c *preparedConn) Close() error {
	for _, s := range c.ready {
		s.Stmt.Close() // closing the connection reports the error
	}
	return c.sqliteConn.Close()
}

// readyRows releases its statement when it is closed.
type readyRows struct {
	driver.Rows
	stmt *readyStmt
}

// Close implements driver.Rows.
func (r *readyRows) Close() error {
	if r.stmt == nil {
		return nil
	}
	err := r.Rows.Close()
	r.stmt.busy, r.stmt = false, nil
	return err
}

// Next implements driver.Rows.
func (r *readyRows) Next(dest []driver.Value) error {
	if r.stmt == nil {
		return io.EOF
	}
	return r.Rows.Next(dest)
}
