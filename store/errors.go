package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"seedbed"
)

// cause is what a driver's error is about.
type cause int

const (
	causeUnknown cause = iota
	causeUnique
	causeForeignKey
	causeCheck
	causeText // a text that the database cannot hold
	causeDiskFull
	causeUnavailable
	causeAgain // others were in the way: the transaction is to be run again
)

// errAgain ends a transaction that found something and, looking again, did not:
// it is run again. It comes only where several write at once.
var errAgain = errors.New("the rows changed meanwhile")

// fail gives err, which came while doing what, the kind that callers match.
func (db *DB) fail(ctx context.Context, what string, err error) error {
	if e := (*seedbed.Error)(nil); errors.As(err, &e) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	switch db.dialect.cause(err) {
	case causeUnique:
		return seedbed.Errorf(seedbed.ErrExists, "%s: it exists already (%v)", what, err)
	case causeForeignKey:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: it names something that does not exist (%v)", what, err)
	case causeCheck:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: a value is out of range (%v)", what, err)
	case causeText:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s: a text is not UTF-8 or has a NUL (%v)", what, err)
	case causeDiskFull:
		return seedbed.Errorf(seedbed.ErrUnavailable, "%s: the disk that holds the database is full, so nothing can be stored until room is made (%v)", what, err)
	case causeUnavailable, causeAgain:
		return seedbed.Errorf(seedbed.ErrUnavailable, "%s: the database cannot be used now (%v)", what, err)
	}
	if db.closed.Load() || errors.Is(err, sql.ErrConnDone) {
		return seedbed.Errorf(seedbed.ErrUnavailable, "%s: the database is closed", what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// clean makes a stranger's or an error's text fit for a text column: valid
// UTF-8 without NUL, at most max bytes.
func clean(s string, max int) string {
	if len(s) > max {
		for max > 0 && !utf8.RuneStart(s[max]) {
			max--
		}
		s = s[:max]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// maxText bounds messages and errors that are kept, in bytes.
const maxText = 4 << 10
