package hooks

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/store/sqldb"
)

// DeclareHooks writes the hooks that the configuration declares, and removes those that it declared
// before and no longer does, all or nothing. A project's quota counts them and does not refuse them. It
// returns ErrConflict if a hook of that name was not made by the configuration.
func (s *Store) DeclareHooks(ctx context.Context, hooks []seedbed.Hook) error {
	for i := range hooks {
		hooks[i].Declared = true
		if err := checkHook(hooks[i]); err != nil {
			return err
		}
	}
	return s.db.Update(ctx, "declare hooks", func(tx *sqldb.Tx) error {
		former, err := sqldb.List(ctx, tx, sqldb.Value[string], `SELECT name FROM hook WHERE declared = 1`)
		if err == nil && len(former)+len(hooks) == 0 {
			err = sqldb.ErrUnchanged
		}
		if err != nil {
			return err
		}
		gone := map[string]bool{}
		for _, name := range former {
			gone[name] = true
		}
		for _, h := range hooks {
			delete(gone, h.Name)
			if err := declare(ctx, tx, h); err != nil {
				return err
			}
		}
		for name := range gone {
			if err := sqldb.Exec(ctx, tx, `DELETE FROM hook WHERE name = $1`, name); err != nil {
				return err
			}
		}
		return nil
	})
}

func declare(ctx context.Context, tx *sqldb.Tx, h seedbed.Hook) error {
	old, err := readHook(ctx, tx, h.Name)
	switch {
	case errors.Is(err, seedbed.ErrNotFound):
		_, err := insertHook(ctx, tx, h, sqldb.Now())
		return err
	case err != nil:
		return err
	case !old.Declared:
		return seedbed.Errorf(seedbed.ErrConflict,
			"hook %q was not made by the configuration: remove it (seedbed hook remove), or call the one under webhook.hooks otherwise", h.Name)
	}
	if err := setHook(ctx, tx, h); err != nil {
		return err
	}
	return writeKeys(ctx, tx, h)
}
