package store

import (
	"context"

	"seedbed"
)

func (d sheet) script() seedbed.Script {
	return seedbed.Script{Stored: d.Stored, Name: d.name, Text: d.content}
}

// CreateScript adds a provisioning script.
func (db *DB) CreateScript(ctx context.Context, name, text string) (seedbed.Script, error) {
	d, err := scriptShelf.create(ctx, db, name, text)
	return d.script(), err
}

// Scripts returns the scripts whose names match, by name.
func (db *DB) Scripts(ctx context.Context, m seedbed.NameMatch) ([]seedbed.Script, error) {
	found, err := scriptShelf.list(ctx, db, m)
	all := make([]seedbed.Script, len(found))
	for i, d := range found {
		all[i] = d.script()
	}
	return all, err
}

// SetScript gives a script another text. The one called empty stays as it is: ErrConflict.
func (db *DB) SetScript(ctx context.Context, name, text string) error {
	return scriptShelf.set(ctx, db, name, text)
}

// DeleteScript removes a script; ErrInUse names the profiles that use it.
func (db *DB) DeleteScript(ctx context.Context, name string) error {
	return scriptShelf.remove(ctx, db, name)
}
