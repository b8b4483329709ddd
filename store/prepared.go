package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
)

// preparing opens connections that keep the statements that they have run
// ready: SQLite takes longer to read most of ours than to do what they say.
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

// openPrepared is sql.Open with the driver of db and statements that stay ready.
func openPrepared(db *sql.DB, dsn string) *sql.DB {
	return sql.OpenDB(preparing{db.Driver(), dsn})
}

// sqliteConn is what a connection of SQLite's driver can do that database/sql asks for.
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

// readyMost bounds the statements that a connection keeps. Their texts are ours; those
// of a migration are more than that, and make room for those that are run again.
const readyMost = 256

// readyStmt is a statement, busy while rows of it are read.
type readyStmt struct {
	driver.Stmt
	busy bool
}

// take gives the statement for query; nil when it has to be run without one,
// because it is in use.
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

// clear lets go of the statements that are not in use.
func (c *preparedConn) clear() {
	for query, s := range c.ready {
		if !s.busy {
			s.Stmt.Close() // what is wrong with it shows when it is run again
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

// Close ends the statements with the connection.
func (c *preparedConn) Close() error {
	for _, s := range c.ready {
		s.Stmt.Close() // the connection's own end tells what is wrong
	}
	return c.sqliteConn.Close()
}

// readyRows give their statement back.
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
