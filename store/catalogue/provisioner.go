package catalogue

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"seedbed"
	"seedbed/store/sqldb"
)

// The kinds of object that a profile refers to, as messages name them.
const (
	kindSystem   = "system template"
	kindNetwork  = "network template"
	kindStorage  = "storage template"
	kindUserData = "userdata document"
	kindScript   = "script"
	kindProfile  = "profile"
)

func noObject(kind, name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "the %s %q does not exist", kind, sqldb.Clean(name, 80))
}

func objectExists(kind, name string) error {
	return seedbed.Errorf(seedbed.ErrExists, "the %s %q already exists", kind, sqldb.Clean(name, 80))
}

// newStored returns the revision and times of a new object.
func newStored() seedbed.ObjectMeta {
	at := sqldb.Now()
	return seedbed.ObjectMeta{Revision: 1, Created: at, Changed: at}
}

// deleteObject deletes an object, which read reads, if all checks pass and no profile refers to it
// in the given column.
func deleteObject[T any](
	ctx context.Context, s *Store, kind, table, column, name string,
	read func(context.Context, *sqldb.Tx, string) (T, error), checks []func(T) error,
) error {
	return s.locked(ctx, "delete", kind, table, name, func(tx *sqldb.Tx) error {
		if err := pass(ctx, tx, name, read, checks); err != nil {
			return err
		}
		users, err := sqldb.List(ctx, tx, sqldb.Value[string], `SELECT name FROM profile WHERE `+column+` = $1 ORDER BY name LIMIT 6`, name)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return seedbed.Errorf(seedbed.ErrInUse, "the %s %q is used by profile %s: change or remove that first", kind, name, sqldb.Quoted(users))
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM `+table+` WHERE name = $1`, name)
	})
}

// pass returns the error of the first check that the object of that name does not pass.
func pass[T any](
	ctx context.Context, tx *sqldb.Tx, name string, read func(context.Context, *sqldb.Tx, string) (T, error), checks []func(T) error,
) error {
	if len(checks) == 0 {
		return nil
	}
	v, err := read(ctx, tx, name)
	if err != nil {
		return err
	}
	return sqldb.Pass(v, checks)
}

// matching returns the condition that a column matches m, and its argument $1.
func matching(column string, m seedbed.NameMatch) (condition string, arg any) {
	if m.Start && m.End {
		return column + ` = $1`, m.Text
	}
	pattern := sqldb.LikePrefix(m.Text)
	if m.End {
		pattern = strings.TrimSuffix(pattern, "%")
	}
	if !m.Start {
		pattern = "%" + pattern
	}
	return column + ` LIKE $1 ESCAPE '\'`, pattern
}

// matchless reports whether no name can match, so that no query is necessary.
func matchless(m seedbed.NameMatch) bool {
	return !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0) || len(m.Text) > 63
}

// matched reads the rows of a query in the order that the query sets. Its %s is replaced by the
// condition on column.
func matched[T any](
	ctx context.Context, tx *sqldb.Tx, scan func(sqldb.Row) (T, error), m seedbed.NameMatch, column, query string,
) ([]T, error) {
	if matchless(m) {
		return []T{}, nil
	}
	condition, arg := matching(column, m)
	return sqldb.List(ctx, tx, scan, fmt.Sprintf(query, condition), arg)
}

// plainText returns ErrInvalid if s is not UTF-8, has a NUL, or is longer than most bytes.
func plainText(what, s string, most int) error {
	switch {
	case len(s) > most:
		return seedbed.Errorf(seedbed.ErrInvalid, "%s has %d bytes: expected at most %d", what, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return seedbed.Errorf(seedbed.ErrInvalid, "%s is not text: expected UTF-8 without NUL", what)
	}
	return nil
}

// oneLine is plainText without control characters.
func oneLine(what, s string, most int) error {
	if err := plainText(what, s, most); err != nil {
		return err
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return seedbed.Errorf(seedbed.ErrInvalid, "%s has a control character: expected one line", what)
	}
	return nil
}
