package sqldb

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"
)

// Dialect holds everything that differs between the databases.
type Dialect struct {
	Goose      goose.Dialect
	Migrations string
	Claim      Claiming
	// Clock is a query for the clock that leases are measured by, in unix microseconds. It is empty
	// if that is this process's own clock.
	Clock string
	// Announce is a query that notifies other processes at the commit that something was written;
	// $1 names this process. It is empty if there can be no other process.
	Announce string
	// HoldInstance locks the row of the instance $1 until the transaction ends. It is empty for a
	// database with one writer.
	HoldInstance string
	// Server is set if the database is a server: several transactions write at the same time, and
	// each statement takes a round trip.
	Server bool
	// LockFree locks the rows of a query until the transaction ends, and skips the rows that other
	// transactions have locked. It is empty for a database with one writer.
	LockFree string
	// SkipNICs are statements after which new NICs get numbers above $1. They change nothing if new
	// numbers are above it anyway, or if it is more than a million ahead.
	SkipNICs []string
	// facts is a query for the server's name with its release, and for "on" if it flushes to disk.
	// It is empty if there is no server.
	facts string
	// Writing and reading are the options of the two kinds of transaction.
	Writing, reading *sql.TxOptions
	// Tries is how often a writing transaction is attempted if it conflicts with others.
	Tries int
	// limit bounds the duration of one transaction with its retries; 0 means no limit.
	limit time.Duration
	// cause finds the constraint or condition behind a driver's error.
	cause func(error) cause
}

// LeaseClock returns the time of the clock that leases are measured by.
func (db *DB) LeaseClock(ctx context.Context, tx *Tx) (time.Time, error) {
	if db.Dialect.Clock == "" {
		return db.sinceOpened(), nil
	}
	at, err := Value[int64](tx.QueryRowContext(ctx, db.Dialect.Clock))
	return time.UnixMicro(at).UTC(), err
}

// OwnClock returns the time of this process's clock if leases are measured by it, and otherwise
// NULL.
func (db *DB) OwnClock() any {
	if db.Dialect.Clock == "" {
		return Micros(db.sinceOpened())
	}
	return nil
}

// sinceOpened returns the time by a clock that is not set while the process runs.
func (db *DB) sinceOpened() time.Time { return db.opened.Add(time.Since(db.opened)) }

// Claiming is what differs between the databases when a job is claimed.
type Claiming struct {
	// Among is the condition that kind is in the list $4, which begins and ends with a comma.
	Among string
	// Slots is the number that the JSON object $6 has for the project name, or 0.
	Slots string
	// Clock is the clock that leases are measured by, in unix microseconds. $5 is OwnClock.
	Clock string
	// Lock prevents two engines from claiming the same row at the same time.
	Lock string
	// Alone prevents all other claims until the transaction ends, so that the counts for the limits
	// stay true. It is empty for a database with one writer.
	Alone string
}
