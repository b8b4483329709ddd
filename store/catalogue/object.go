package catalogue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/sqldb"
)

// createObject adds an object and returns its number. into is its table with the columns that
// values are of; name is among them. It may share its transaction with other writes, because most of
// its time is the flush to disk.
func (s *Store) createObject(ctx context.Context, kind seedbed.PublishedKind, into, name string, values ...any) (id int64, err error) {
	err = s.together(ctx, "create "+kind.Noun()+" "+name, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := holdProject(ctx, tx, name); err != nil {
			return err
		}
		insertNumbered(tx, kind, into, name, values, &id)
		return nil
	})
	return id, err
}

// holdProject locks the project of an object that is made, so that it is not removed before the transaction
// ends. The default project is never removed.
func holdProject(ctx context.Context, tx *sqldb.Tx, qualified string) error {
	project := seedbed.ProjectOf(qualified)
	if project == seedbed.DefaultProject {
		return nil
	}
	_, err := access.HoldProject(ctx, tx, project)
	return err
}

// insertNumbered defers the insertion of an object. It sets id to the number that the database
// assigns.
func insertNumbered(tx *sqldb.Tx, kind seedbed.PublishedKind, into, name string, values []any, id *int64) {
	sqldb.LaterOne(tx, id, sqldb.Value[int64], objectExists(kind, name),
		sqldb.InsertRows(into, 1, len(values))+` ON CONFLICT (name) DO NOTHING RETURNING id`, values...)
}

// locked runs fn in a transaction that has locked an object. The row that fn reads is
// as it was, with its revision; see changed. verb says what fn does: "change" or "delete".
func (s *Store) locked(ctx context.Context, verb string, kind seedbed.PublishedKind, name string, fn func(*sqldb.Tx) error) error {
	return s.db.Update(ctx, verb+" "+kind.Noun()+" "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx, `UPDATE `+tableOf(kind)+` SET revision = revision WHERE name = $1`, name)
		if err != nil && sqldb.Unstorable(err) || err == nil && n == 0 {
			err = noObject(kind, name)
		}
		if err != nil {
			return err
		}
		return fn(tx)
	})
}

// changed returns what is recorded of an object after a change.
func changed(m seedbed.ObjectMeta) seedbed.ObjectMeta {
	m.Revision++
	m.Changed = sqldb.Now()
	return m
}

// update sets columns, a list of names, of the row with that number.
func update(ctx context.Context, tx *sqldb.Tx, table, columns string, id int64, values []any) error {
	var set []string
	for _, name := range strings.Split(columns, ", ") {
		set = append(set, fmt.Sprintf("%s = $%d", name, len(set)+1))
	}
	return sqldb.Exec(ctx, tx, `UPDATE `+table+` SET `+strings.Join(set, ", ")+fmt.Sprintf(` WHERE id = $%d`, len(values)+1),
		append(values, id)...)
}

// setParts replaces the parts of a template, which are rows of that table. It deletes those of was
// whose ID no part of is has, and calls insert for those of is without an ID.
func setParts[T any](
	ctx context.Context, tx *sqldb.Tx, table string, was, is []T, id func(T) int64, insert func(T) error,
) error {
	for _, p := range was {
		if slices.ContainsFunc(is, func(kept T) bool { return id(kept) == id(p) }) {
			continue
		}
		if err := sqldb.Exec(ctx, tx, `DELETE FROM `+table+` WHERE id = $1`, id(p)); err != nil {
			return err
		}
	}
	for _, p := range is {
		if id(p) != 0 {
			continue
		}
		if err := insert(p); err != nil {
			return err
		}
	}
	return nil
}

// only returns the object that a search for its whole name found, or ErrNotFound.
func only[T any](kind seedbed.PublishedKind, name string, found []T, err error) (one T, _ error) {
	if err == nil && len(found) == 0 {
		err = noObject(kind, name)
	}
	if err != nil {
		return one, err
	}
	return found[0], nil
}
