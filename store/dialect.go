package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"
)

// dialect holds everything that differs between the databases.
type dialect struct {
	goose      goose.Dialect
	migrations string
	claim      claiming
	// clock is a query for the clock that leases are measured by, in unix microseconds. It is empty
	// if that is this process's own clock.
	clock string
	// announce is a query that notifies other processes at the commit that something was written;
	// $1 names this process. It is empty if there can be no other process.
	announce string
	// holdInstance locks the row of the instance $1 until the transaction ends. It is empty for a
	// database with one writer.
	holdInstance string
	// server is set if the database is a server: several transactions write at the same time, and
	// each statement takes a round trip.
	server bool
	// lockFree locks the rows of a query until the transaction ends, and skips the rows that other
	// transactions have locked. It is empty for a database with one writer.
	lockFree string
	// facts is a query for the server's name with its release, and for "on" if it flushes to disk.
	// It is empty if there is no server.
	facts string
	// writing and reading are the options of the two kinds of transaction.
	writing, reading *sql.TxOptions
	// tries is how often a writing transaction is attempted if it conflicts with others.
	tries int
	// limit bounds the duration of one transaction with its retries; 0 means no limit.
	limit time.Duration
	// cause finds the constraint or condition behind a driver's error.
	cause func(error) cause
}

// leaseClock returns the time of the clock that leases are measured by.
func (db *DB) leaseClock(ctx context.Context, tx *Tx) (time.Time, error) {
	if db.dialect.clock == "" {
		return db.opened.Add(time.Since(db.opened)), nil
	}
	at, err := value[int64](tx.QueryRowContext(ctx, db.dialect.clock))
	return time.UnixMicro(at).UTC(), err
}

// claiming is what differs between the databases when a job is claimed.
type claiming struct {
	// among is the condition that kind is in the list $4, which begins and ends with a comma.
	among string
	// lock prevents two engines from claiming the same row at the same time.
	lock string
	// alone prevents all other claims until the transaction ends, so that the counts for the limits
	// stay true. It is empty for a database with one writer.
	alone string
}
