package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"
)

// dialect is all that differs between databases.
type dialect struct {
	goose      goose.Dialect
	migrations string
	claim      claiming
	// clock reads, in unix microseconds, the clock that leases are measured by;
	// empty is this process's own.
	clock string
	// announce tells other processes at the commit that something was written,
	// in the name of $1; empty where there are no others.
	announce string
	// holdInstance locks the row of the instance $1 until the transaction ends; empty
	// where there is one writer.
	holdInstance string
	// server is set where the database is a server: several transactions write at
	// a time, and each statement is a way there and back.
	server bool
	// lockFree locks the rows of a query until the transaction ends, and leaves out those that others
	// have locked. Empty where there is one writer.
	lockFree string
	// facts reads the server's name with its release, and "on" if it flushes to
	// disk; empty where there is no server.
	facts string
	// writing and reading are the transactions of each kind.
	writing, reading *sql.TxOptions
	// tries is how often a writing transaction is run that another got in the way of.
	tries int
	// limit bounds one transaction, retries included; 0 is without.
	limit time.Duration
	// cause finds which constraint or condition a driver's error is about.
	cause func(error) cause
}

// leaseClock is the time that leases are measured by.
func (db *DB) leaseClock(ctx context.Context, tx *Tx) (time.Time, error) {
	if db.dialect.clock == "" {
		return db.opened.Add(time.Since(db.opened)), nil
	}
	at, err := value[int64](tx.QueryRowContext(ctx, db.dialect.clock))
	return time.UnixMicro(at).UTC(), err
}
