package catalogue

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// textColumns are the columns of a user-data document and of a script, besides its number and a
// script's options.
const textColumns = `name, content, revision, created, changed`

// texts is a table of texts: user-data documents or scripts. column is the column in which a profile
// refers to one.
type texts struct {
	kind   seedbed.PublishedKind
	column string
}

var (
	userDataTexts = texts{kindUserData, "document"}
	scriptTexts   = texts{kindScript, "script"}
)

// Always creates the built-in empty user-data document and script, which all projects may use.
func (s *Store) Always(ctx context.Context) error {
	return s.db.Update(ctx, "keep what is always there", func(tx *sqldb.Tx) error {
		made := 0
		for _, t := range []texts{userDataTexts, scriptTexts} {
			n, err := sqldb.Affect(ctx, tx,
				`INSERT INTO `+tableOf(t.kind)+` (`+textColumns+`) VALUES ($1, '', 1, $2, $2) ON CONFLICT (name) DO NOTHING`,
				seedbed.Empty, sqldb.Micros(sqldb.Now()))
			if err != nil {
				return err
			}
			made += n
			if n, err = sqldb.Affect(ctx, tx, `INSERT INTO published (kind, name, project) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				t.kind, seedbed.Empty, toAll); err != nil {
				return err
			}
			made += n
		}
		if made == 0 {
			return sqldb.ErrUnchanged
		}
		return nil
	})
}

// create adds a text and returns what is recorded of it.
func (t texts) create(ctx context.Context, s *Store, name, content string) (seedbed.ObjectMeta, error) {
	if err := cmp.Or(seedbed.CheckQualifiedName(t.kind.Noun(), name), t.check(content)); err != nil {
		return seedbed.ObjectMeta{}, err
	}
	m := newStored()
	id, err := s.createObject(ctx, t.kind, tableOf(t.kind)+` (`+textColumns+`)`, name, name, content,
		m.Revision, sqldb.Micros(m.Created), sqldb.Micros(m.Changed))
	m.ID = id
	return m, err
}

// set replaces the content of a text, of which m is recorded.
func (t texts) set(ctx context.Context, tx *sqldb.Tx, name, content string, m seedbed.ObjectMeta) error {
	if err := cmp.Or(t.fixed(name), t.check(content)); err != nil {
		return err
	}
	return update(ctx, tx, tableOf(t.kind), "content, revision, changed", m.ID, []any{content, m.Revision, sqldb.Micros(m.Changed)})
}

// remove deletes a text, which read reads, if all checks pass and no profile refers to it.
func remove[T any](
	ctx context.Context, s *Store, t texts, name string, read func(context.Context, *sqldb.Tx, string) (T, error), checks []func(T) error,
) error {
	if err := t.fixed(name); err != nil {
		return err
	}
	return deleteObject(ctx, s, t.kind, t.column, name, read, checks)
}

// check returns ErrInvalid for a content that cannot be stored.
func (t texts) check(content string) error {
	return plainText("the "+t.kind.Noun(), content, int(seedbed.MaxDocument))
}

// fixed returns ErrConflict for the built-in text, which does not change.
func (t texts) fixed(name string) error {
	if name != seedbed.Empty {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrConflict, "the %s %q is always there and holds nothing: make another", t.kind.Noun(), name)
}

func scanUserData(r sqldb.Row) (d seedbed.UserDataDocument, err error) {
	err = r.Scan(&d.ID, &d.Name, &d.Data, &d.Revision, sqldb.ToTime(&d.Created), sqldb.ToTime(&d.Changed))
	return d, err
}

// readUserData reads the user-data document of that name.
func readUserData(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.UserDataDocument, error) {
	return object(ctx, tx, kindUserData, scanUserData, name, `SELECT id, `+textColumns+` FROM userdata WHERE name = $1`)
}

// CreateUserData adds a user-data document.
func (s *Store) CreateUserData(ctx context.Context, name, data string) (seedbed.UserDataDocument, error) {
	m, err := userDataTexts.create(ctx, s, name, data)
	return seedbed.UserDataDocument{ObjectMeta: m, Name: name, Data: data}, err
}

// UserDataDocuments returns the user-data documents whose names match, sorted by name.
func (s *Store) UserDataDocuments(ctx context.Context, m seedbed.NameMatch) (all []seedbed.UserDataDocument, err error) {
	err = s.db.View(ctx, "list userdata documents", func(tx *sqldb.Tx) error {
		all, err = objects(ctx, tx, kindUserData, scanUserData, func(d seedbed.UserDataDocument) string { return d.Name }, m,
			`SELECT id, `+textColumns+` FROM userdata WHERE %s ORDER BY name`)
		return err
	})
	return all, err
}

// ChangeUserData changes a user-data document by calling change, possibly more than once. change may
// set the data. Instances that were made with it keep their user-data, unless it follows the
// document. ChangeUserData returns ErrNotFound, ErrInvalid, ErrConflict for the built-in document
// "empty", or the error of change.
func (s *Store) ChangeUserData(
	ctx context.Context, name string, change func(*seedbed.UserDataDocument) error,
) (d seedbed.UserDataDocument, err error) {
	defer s.revised.Wake()
	err = s.locked(ctx, "change", kindUserData, name, func(tx *sqldb.Tx) error {
		was, err := readUserData(ctx, tx, name)
		if err != nil {
			return err
		}
		d = was
		if err := change(&d); err != nil {
			return err
		}
		d.Name, d.ObjectMeta = was.Name, changed(was.ObjectMeta)
		return userDataTexts.set(ctx, tx, name, d.Data, d.ObjectMeta)
	})
	return d, err
}

// PublishUserData says to which other projects a user-data document is published; see [Store.PublishProfile].
func (s *Store) PublishUserData(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.UserDataDocument) error,
) (seedbed.UserDataDocument, error) {
	return publish(ctx, s, kindUserData, name, to, readUserData, checks)
}

// DeleteUserData removes a user-data document. If profiles use it, DeleteUserData returns an
// ErrInUse that names them. If the document does not pass a check, it returns the error of that.
func (s *Store) DeleteUserData(ctx context.Context, name string, checks ...func(seedbed.UserDataDocument) error) error {
	return remove(ctx, s, userDataTexts, name, readUserData, checks)
}

// Revised returns a channel that is closed at the next change of a profile or user-data document by
// this process. Like that of [DB.Hint], it is only a hint.
func (s *Store) Revised() <-chan struct{} { return s.revised.Next() }
