package catalogue

import (
	"context"

	"seedbed/store/sqldb"
)

// The tables and columns of the catalogue's objects, without their numbers.
const (
	intoSystem          = `system_template (` + systemColumns + `)`
	intoNetworkTemplate = `network_template (name, mac, revision, created, changed)`
	intoStorageTemplate = `storage_template (name, revision, created, changed)`
	intoUserData        = `userdata (name, content, revision, created, changed)`
	intoScript          = `script (name, content, revision, created, changed)`
)

// createObject adds an object and returns its number. values are those of its columns after the
// number, the name first. It may share its transaction with other writes, because most of its time
// is the flush to disk.
func (s *Store) createObject(ctx context.Context, kind, into, name string, values ...any) (id int64, err error) {
	err = s.together(ctx, "create "+kind+" "+name, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		id, err = insertNumbered(ctx, tx, kind, into, name, values)
		return err
	})
	return id, err
}

// insertNumbered inserts an object and returns the number that the database assigns.
func insertNumbered(ctx context.Context, tx *sqldb.Tx, kind, into, name string, values []any) (int64, error) {
	query := sqldb.InsertRows(into, 1, len(values))
	return insertObject(ctx, tx, kind, name, query+` ON CONFLICT (name) DO NOTHING RETURNING id`, values...)
}
