package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"seedbed"
)

// cause is the condition behind a driver's error.
type cause int

const (
	causeUnknown cause = iota
	causeUnique
	causeForeignKey
	causeCheck
	causeText // a text that the database cannot store
	causeDiskFull
	causeUnavailable
	causeAgain // a conflict with another transaction; run this one again
)

// ErrAgain ends a transaction that read a row which was gone when it read again. The transaction is
// run again. It occurs only in a database with several writers.
var ErrAgain = errors.New("the rows changed in the meantime")

// Fail wraps err, which occurred while doing what, in the kind of error that callers match.
func (db *DB) Fail(ctx context.Context, what string, err error) error {
	if e := (*seedbed.Error)(nil); errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	cause := db.Dialect.cause(err)
	if cause == causeUnknown && (db.closed.Load() || errors.Is(err, sql.ErrConnDone)) {
		return seedbed.Errorf(seedbed.ErrUnavailable, "%s: the database is closed", what)
	}
	return cause.wrap(what, err)
}

// wrap returns the error that callers match.
func (c cause) wrap(what string, err error) error {
	switch c {
	case causeUnique:
		return seedbed.Errorf(seedbed.ErrExists, "%s: it exists already (%v)", what, err)
	case causeForeignKey:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: it names something that does not exist (%v)", what, err)
	case causeCheck:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: a value is out of range (%v)", what, err)
	case causeText:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: a text is not UTF-8 or has a NUL (%v)", what, err)
	case causeDiskFull:
		return seedbed.Errorf(seedbed.ErrUnavailable,
			"%s: the disk that holds the database is full, so nothing can be stored until room is made (%v)", what, err)
	case causeUnavailable, causeAgain:
		return seedbed.Errorf(seedbed.ErrUnavailable, "%s: the database cannot be used now (%v)", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// MayBeOnes reports whether one of the writes may have made a shared transaction fail, as opposed
// to a database that cannot be used.
func (db *DB) MayBeOnes(ctx context.Context, err error) bool {
	if ctx.Err() != nil || db.closed.Load() || errors.Is(err, ErrAgain) {
		return false
	}
	switch db.Dialect.cause(err) {
	case causeUnavailable, causeDiskFull, causeAgain:
		return false
	}
	return true
}
