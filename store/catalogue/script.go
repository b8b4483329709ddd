package catalogue

import (
	"context"
	"crypto/sha256"

	"seedbed"
	"seedbed/store/sqldb"
)

func (d sheet) script() seedbed.Script {
	return seedbed.Script{ObjectMeta: d.ObjectMeta, Name: d.name, Text: d.content}
}

// CreateScript adds a provisioning script.
func (s *Store) CreateScript(ctx context.Context, name, text string) (seedbed.Script, error) {
	d, err := scriptShelf.create(ctx, s, name, text)
	return d.script(), err
}

// Scripts returns the scripts whose names match, sorted by name.
func (s *Store) Scripts(ctx context.Context, m seedbed.NameMatch) (all []seedbed.Script, err error) {
	err = s.db.View(ctx, "list scripts", func(tx *sqldb.Tx) error {
		all, err = matched(ctx, tx, scanScript, m, "name", `SELECT `+scriptColumns+` FROM script WHERE %s ORDER BY name`)
		return err
	})
	return all, err
}

const scriptColumns = `id, name, content, options, revision, created, changed`

// keptOptions is a script's options as they are stored. A script stays privileged only as long as
// its text is the one for which that was granted.
type keptOptions struct {
	seedbed.ScriptOptions
	Granted seedbed.Digest `json:"granted,omitzero"`
}

func scanScript(r sqldb.Row) (s seedbed.Script, err error) {
	var kept keptOptions
	err = r.Scan(&s.ID, &s.Name, &s.Text, sqldb.ToJSON(&kept), &s.Revision, sqldb.ToTime(&s.Created), sqldb.ToTime(&s.Changed))
	s.Options = kept.ScriptOptions
	s.Options.Privileged = kept.Privileged && kept.Granted == sha256.Sum256([]byte(s.Text))
	return s, err
}

// SetScriptOptions changes a script's permissions and limits; change sets them. Running jobs keep
// the options that they started with. The built-in script "empty" has no options: ErrConflict.
func (s *Store) SetScriptOptions(ctx context.Context, name string, change func(*seedbed.ScriptOptions)) error {
	return s.db.Update(ctx, "change options of script "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if _, err := touchObject(ctx, tx, kindScript, "script", name); err != nil {
			return err
		}
		if name == seedbed.Empty {
			return scriptShelf.fixed()
		}
		s, err := sqldb.One(ctx, tx, scanScript, noObject(kindScript, name), `SELECT `+scriptColumns+` FROM script WHERE name = $1`, name)
		if err != nil {
			return err
		}
		change(&s.Options)
		if err := s.Options.Check(); err != nil {
			return err
		}
		kept := keptOptions{ScriptOptions: s.Options}
		if kept.Privileged {
			kept.Granted = sha256.Sum256([]byte(s.Text))
		}
		return sqldb.Exec(ctx, tx, `UPDATE script SET options = $1 WHERE name = $2`, sqldb.AsJSON(kept), name)
	})
}

// SetScript replaces the text of a script. The built-in script "empty" cannot be changed:
// ErrConflict.
func (s *Store) SetScript(ctx context.Context, name, text string) error {
	return scriptShelf.set(ctx, s, name, text)
}

// DeleteScript removes a script. If profiles use it, DeleteScript returns an ErrInUse that names
// them.
func (s *Store) DeleteScript(ctx context.Context, name string) error {
	return scriptShelf.remove(ctx, s, name)
}
