package catalogue

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// sheet is a named text in one of two tables: a user-data document or a script.
type sheet struct {
	seedbed.ObjectMeta
	name, content string
}

func scanDocument(r sqldb.Row) (d sheet, err error) {
	err = r.Scan(&d.ID, &d.name, &d.content, &d.Revision, sqldb.ToTime(&d.Created), sqldb.ToTime(&d.Changed))
	return d, err
}

// shelf is one of the tables that hold sheets. column is the column in which a profile refers to
// one.
type shelf struct{ kind, table, column, into string }

var (
	userDataShelf = shelf{kindUserData, "userdata", "document", intoUserData}
	scriptShelf   = shelf{kindScript, "script", "script", intoScript}
)

// Always creates the built-in empty user-data document and script.
func (s *Store) Always(ctx context.Context) error {
	return s.db.Update(ctx, "keep what is always there", func(tx *sqldb.Tx) error {
		changed := 0
		for _, s := range []shelf{userDataShelf, scriptShelf} {
			at := sqldb.Micros(sqldb.Now())
			n, err := sqldb.Affect(ctx, tx,
				`INSERT INTO `+s.table+` (name, content, revision, created, changed) VALUES ($1, '', 1, $2, $2) ON CONFLICT (name) DO NOTHING`,
				seedbed.Empty, at)
			if err != nil {
				return err
			}
			changed += n
		}
		if changed == 0 {
			return sqldb.ErrUnchanged
		}
		return nil
	})
}

// create adds a sheet.
func (s shelf) create(ctx context.Context, st *Store, name, content string) (sheet, error) {
	if err := seedbed.CheckName(s.kind, name); err != nil {
		return sheet{}, err
	}
	if err := plainText("the "+s.kind, content, int(seedbed.MaxDocument)); err != nil {
		return sheet{}, err
	}
	d := sheet{newStored(), name, content}
	id, err := st.createObject(ctx, s.kind, s.into, name, name, content, d.Revision, sqldb.Micros(d.Created), sqldb.Micros(d.Changed))
	d.ID = id
	return d, err
}

func (s shelf) list(ctx context.Context, st *Store, m seedbed.NameMatch) (all []sheet, err error) {
	err = st.db.View(ctx, "list "+s.kind+"s", func(tx *sqldb.Tx) error {
		all, err = matched(ctx, tx, scanDocument, m, "name",
			`SELECT id, name, content, revision, created, changed FROM `+s.table+` WHERE %s ORDER BY name`)
		return err
	})
	return all, err
}

// set replaces the content of a sheet.
func (s shelf) set(ctx context.Context, st *Store, name, content string) error {
	if err := plainText("the "+s.kind, content, int(seedbed.MaxDocument)); err != nil {
		return err
	}
	return st.db.Update(ctx, "change "+s.kind+" "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if _, err := touchObject(ctx, tx, s.kind, s.table, name); err != nil {
			return err
		}
		if name == seedbed.Empty {
			return s.fixed()
		}
		return sqldb.Exec(ctx, tx, `UPDATE `+s.table+` SET content = $1 WHERE name = $2`, content, name)
	})
}

func (s shelf) remove(ctx context.Context, st *Store, name string) error {
	if name == seedbed.Empty {
		return s.fixed()
	}
	return st.deleteObject(ctx, s.kind, s.table, s.column, name)
}

// fixed returns ErrConflict, for changes of a built-in sheet.
func (s shelf) fixed() error {
	return seedbed.Errorf(seedbed.ErrConflict, "the %s %q is always there and holds nothing: make another", s.kind, seedbed.Empty)
}

func (d sheet) userData() seedbed.UserDataDocument {
	return seedbed.UserDataDocument{ObjectMeta: d.ObjectMeta, Name: d.name, Data: d.content}
}

// CreateUserData adds a user-data document.
func (s *Store) CreateUserData(ctx context.Context, name, data string) (seedbed.UserDataDocument, error) {
	d, err := userDataShelf.create(ctx, s, name, data)
	return d.userData(), err
}

// UserDataDocuments returns the user-data documents whose names match, sorted by name.
func (s *Store) UserDataDocuments(ctx context.Context, m seedbed.NameMatch) ([]seedbed.UserDataDocument, error) {
	found, err := userDataShelf.list(ctx, s, m)
	all := make([]seedbed.UserDataDocument, len(found))
	for i, d := range found {
		all[i] = d.userData()
	}
	return all, err
}

// SetUserData replaces the content of a user-data document. Instances that were made with it keep
// their user-data, unless it follows the document. The built-in document "empty" cannot be changed:
// ErrConflict.
func (s *Store) SetUserData(ctx context.Context, name, data string) error {
	defer s.revised.Wake()
	return userDataShelf.set(ctx, s, name, data)
}

// DeleteUserData removes a user-data document. If profiles use it, DeleteUserData returns an
// ErrInUse that names them.
func (s *Store) DeleteUserData(ctx context.Context, name string) error {
	return userDataShelf.remove(ctx, s, name)
}

// Revised returns a channel that is closed at the next change of a profile or user-data document by
// this process. Like that of [DB.Hint], it is only a hint.
func (s *Store) Revised() <-chan struct{} { return s.revised.Next() }
