package catalogue

import (
	"cmp"
	"context"
	"crypto/sha256"

	"seedbed"
	"seedbed/store/sqldb"
)

// CreateScript adds a provisioning script.
func (s *Store) CreateScript(ctx context.Context, name, text string) (seedbed.Script, error) {
	m, err := scriptTexts.create(ctx, s, name, text)
	return seedbed.Script{ObjectMeta: m, Name: name, Text: text}, err
}

// Scripts returns the scripts whose names match, sorted by name.
func (s *Store) Scripts(ctx context.Context, m seedbed.NameMatch) (all []seedbed.Script, err error) {
	err = s.db.View(ctx, "list scripts", func(tx *sqldb.Tx) error {
		all, err = objects(ctx, tx, kindScript, scanScript, func(s seedbed.Script) string { return s.Name }, m,
			`SELECT `+scriptRead+` FROM script WHERE %s ORDER BY name`)
		return err
	})
	return all, err
}

// scriptRead lists the columns to read of a script.
const scriptRead = `id, ` + textColumns + `, options`

// keptOptions is a script's options as they are stored. A script stays privileged only as long as
// its text is the one for which that was granted.
type keptOptions struct {
	seedbed.ScriptOptions
	Granted seedbed.Digest `json:"granted,omitzero"`
}

func scanScript(r sqldb.Row) (s seedbed.Script, err error) {
	var kept keptOptions
	err = r.Scan(&s.ID, &s.Name, &s.Text, &s.Revision, sqldb.ToTime(&s.Created), sqldb.ToTime(&s.Changed), sqldb.ToJSON(&kept))
	s.Options = kept.ScriptOptions
	s.Options.Privileged = kept.Privileged && kept.Granted == sha256.Sum256([]byte(s.Text))
	return s, err
}

// readScript reads the script of that name.
func readScript(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Script, error) {
	return object(ctx, tx, kindScript, scanScript, name, `SELECT `+scriptRead+` FROM script WHERE name = $1`)
}

// ChangeScript changes the text of a script by calling change, possibly more than once. Its options
// stay, but a text other than the one that was granted privilege does not have it.
// ChangeScript returns ErrNotFound, ErrInvalid, ErrConflict for the built-in script "empty", or the
// error of change.
func (s *Store) ChangeScript(ctx context.Context, name string, change func(*seedbed.Script) error) (script seedbed.Script, err error) {
	err = s.locked(ctx, "change", kindScript, name, func(tx *sqldb.Tx) error {
		if script, err = readScript(ctx, tx, name); err != nil {
			return err
		}
		m := changed(script.ObjectMeta)
		if err := change(&script); err != nil {
			return err
		}
		if err := scriptTexts.set(ctx, tx, name, script.Text, m); err != nil {
			return err
		}
		script, err = readScript(ctx, tx, name) // with what is left of its privilege
		return err
	})
	return script, err
}

// ChangeScriptOptions changes a script's permissions and limits by calling change, possibly more
// than once. Running jobs keep the options that they started with. ChangeScriptOptions returns the
// errors of ChangeScript.
func (s *Store) ChangeScriptOptions(
	ctx context.Context, name string, change func(*seedbed.Script) error,
) (script seedbed.Script, err error) {
	err = s.locked(ctx, "change options of", kindScript, name, func(tx *sqldb.Tx) error {
		was, err := readScript(ctx, tx, name)
		if err != nil {
			return err
		}
		script = was
		if err := change(&script); err != nil {
			return err
		}
		if err := cmp.Or(scriptTexts.fixed(name), script.Options.Check()); err != nil {
			return err
		}
		script.Name, script.Text, script.ObjectMeta = was.Name, was.Text, changed(was.ObjectMeta)
		kept := keptOptions{ScriptOptions: script.Options}
		if kept.Privileged {
			kept.Granted = sha256.Sum256([]byte(script.Text))
		}
		return update(ctx, tx, "script", "options, revision, changed", script.ID,
			[]any{sqldb.AsJSON(kept), script.Revision, sqldb.Micros(script.Changed)})
	})
	return script, err
}

// PublishScript says to which other projects a script is published; see [Store.PublishProfile].
func (s *Store) PublishScript(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Script) error,
) (seedbed.Script, error) {
	return publish(ctx, s, kindScript, name, to, readScript, checks)
}

// DeleteScript removes a script. If profiles use it, DeleteScript returns an ErrInUse that names
// them. If the script does not pass a check, it returns the error of that.
func (s *Store) DeleteScript(ctx context.Context, name string, checks ...func(seedbed.Script) error) error {
	return remove(ctx, s, scriptTexts, name, readScript, checks)
}
