package catalogue

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"seedbed"
	"seedbed/store/sqldb"
)

// The kinds of profiles and of what they refer to.
const (
	kindSystem   = seedbed.PublishedSystemTemplate
	kindNetwork  = seedbed.PublishedNetworkTemplate
	kindStorage  = seedbed.PublishedStorageTemplate
	kindUserData = seedbed.PublishedUserData
	kindScript   = seedbed.PublishedScript
	kindProfile  = seedbed.PublishedProfile
	kindOVA      = seedbed.PublishedOVA
)

func noObject(kind seedbed.PublishedKind, name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "the %s %q does not exist", kind.Noun(), sqldb.Clean(name, 80))
}

func objectExists(kind seedbed.PublishedKind, name string) error {
	return seedbed.Errorf(seedbed.ErrExists, "the %s %q already exists", kind.Noun(), sqldb.Clean(name, 80))
}

// newStored returns the revision and times of a new object.
func newStored() seedbed.ObjectMeta {
	at := sqldb.Now()
	return seedbed.ObjectMeta{Revision: 1, Created: at, Changed: at, Published: Shown(seedbed.Publication{})}
}

// deleteObject deletes an object, which read reads, if all checks pass and no profile refers to it
// in the given column.
func deleteObject[T any](
	ctx context.Context, s *Store, kind seedbed.PublishedKind, column, name string,
	read func(context.Context, *sqldb.Tx, string) (T, error), checks []func(T) error,
) error {
	return s.locked(ctx, "delete", kind, name, func(tx *sqldb.Tx) error {
		if err := pass(ctx, tx, name, read, checks); err != nil {
			return err
		}
		users, err := sqldb.List(ctx, tx, sqldb.Value[string], `SELECT name FROM profile WHERE `+column+` = $1 ORDER BY name`, name)
		if err != nil {
			return err
		}
		if err := inUse(ctx, kind, name, "by profile", users); err != nil {
			return err
		}
		if err := Withdraw(ctx, tx, kind, name); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM `+tableOf(kind)+` WHERE name = $1`, name)
	})
}

// metaOf is a pointer to an object that a profile refers to.
type metaOf[T any] interface {
	*T
	Meta() *seedbed.ObjectMeta
}

// objects reads the objects of a kind whose names match, with their publications. query is that of matched.
func objects[T any, P metaOf[T]](
	ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, scan func(sqldb.Row) (T, error), name func(T) string,
	m seedbed.NameMatch, query string,
) ([]T, error) {
	all, err := matched(ctx, tx, scan, m, "name", query)
	if err != nil {
		return nil, err
	}
	to, err := ReadPublications(ctx, tx, kind)
	for i := range all {
		P(&all[i]).Meta().Published = Shown(to[name(all[i])])
	}
	return all, err
}

// object reads the object of a kind that has a name, with its publication. query is that of one row.
func object[T any, P metaOf[T]](
	ctx context.Context, tx *sqldb.Tx, kind seedbed.PublishedKind, scan func(sqldb.Row) (T, error), name, query string,
) (T, error) {
	v, err := sqldb.One(ctx, tx, scan, noObject(kind, name), query, name)
	if err != nil {
		return v, err
	}
	to, err := ReadPublication(ctx, tx, kind, name)
	P(&v).Meta().Published = Shown(to)
	return v, err
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

// matching returns the condition that a column matches m.
func matching(column string, m seedbed.NameMatch) *sqldb.Where {
	w := &sqldb.Where{}
	if m.Project != "" {
		own, args := owning(column, m.Project)
		w.And(own, args...)
	}
	switch {
	case m.Project == "" || m.Project == seedbed.DefaultProject:
	case m.Start && m.End:
		m.Text = seedbed.Qualified(m.Project, m.Text)
	default:
		column = fmt.Sprintf("SUBSTR(%s, %d)", column, len(m.Project)+2)
	}
	if m.Start && m.End {
		w.And(column+` = %s`, m.Text)
		return w
	}
	pattern := sqldb.LikePrefix(m.Text)
	if m.End {
		pattern = strings.TrimSuffix(pattern, "%")
	}
	if !m.Start {
		pattern = "%" + pattern
	}
	w.And(column+` LIKE %s ESCAPE '\'`, pattern)
	return w
}

// maxQualified is the length of the longest qualified name.
const maxQualified = 32 + 1 + 63

// matchless reports whether no name can match, so that no query is necessary.
func matchless(m seedbed.NameMatch) bool {
	return !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0) || len(m.Text) > maxQualified
}

// matched reads the rows of a query in the order that the query sets. Its %s is replaced by the
// condition on column.
func matched[T any](
	ctx context.Context, tx *sqldb.Tx, scan func(sqldb.Row) (T, error), m seedbed.NameMatch, column, query string,
) ([]T, error) {
	if matchless(m) {
		return []T{}, nil
	}
	w := matching(column, m)
	return sqldb.List(ctx, tx, scan, fmt.Sprintf(query, w), w.Args...)
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
