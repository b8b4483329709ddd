package hooks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"seedbed"
	"seedbed/store/access"
	"seedbed/store/catalogue"
	"seedbed/store/sqldb"
)

const hookColumns = `name, project, settings, actions, tolerance, declared, created, changed`

func scanHook(r sqldb.Row) (h seedbed.Hook, err error) {
	var tolerance int64
	err = r.Scan(&h.Name, &h.Project, sqldb.ToJSON(&h.HookSettings), sqldb.ToJSON(&h.Actions), &tolerance,
		&h.Declared, sqldb.ToTime(&h.Created), sqldb.ToTime(&h.Changed))
	h.Tolerance = time.Duration(tolerance) * time.Microsecond
	if h.Scheme == "" { // created by a release that had one scheme
		h.Scheme = seedbed.SchemeStandard
	}
	if h.Changed.IsZero() {
		h.Changed = h.Created
	}
	return h, err
}

// CreateHook adds a hook with its keys, and returns it with its time of creation. The tolerance is
// stored to the microsecond. A profile that does not exist is ErrInvalid, and one hook more than the quota
// of its project allows is ErrForbidden.
func (s *Store) CreateHook(ctx context.Context, h seedbed.Hook) (made seedbed.Hook, err error) {
	if err := checkHook(h); err != nil {
		return seedbed.Hook{}, err
	}
	err = s.db.Update(ctx, "create hook "+h.Name, func(tx *sqldb.Tx) error {
		in, err := insertHook(ctx, tx, h, sqldb.Now())
		if err != nil {
			return err
		}
		if err := access.Hooks().Hold(ctx, tx, in); err != nil {
			return err
		}
		made, err = readHook(ctx, tx, h.Name)
		return err
	})
	if err != nil {
		return seedbed.Hook{}, err
	}
	return made, nil
}

// insertHook writes a new hook, and returns its project, whose row is locked. It returns ErrExists if there
// is a hook of that name.
func insertHook(ctx context.Context, tx *sqldb.Tx, h seedbed.Hook, created time.Time) (in seedbed.Project, err error) {
	h.Project = cmp.Or(h.Project, seedbed.DefaultProject)
	if in, err = access.HoldProject(ctx, tx, h.Project); err != nil {
		return in, sqldb.Within("hook "+h.Name, err)
	}
	h.Profiles, h.Actions = sqldb.OrEmpty(h.Profiles), sqldb.OrEmpty(h.Actions)
	made, err := sqldb.Affect(ctx, tx, `
		INSERT INTO hook (`+hookColumns+`, key)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING`,
		h.Name, h.Project, sqldb.AsJSON(h.HookSettings), sqldb.AsJSON(h.Actions), h.Tolerance.Microseconds(),
		sqldb.Flag(h.Declared), sqldb.Micros(created), sqldb.Micros(sqldb.Now()), formerKey(h))
	if err != nil {
		return in, err
	}
	if made == 0 {
		return in, seedbed.Errorf(seedbed.ErrExists, "hook %q exists already", h.Name)
	}
	if err := writeProfiles(ctx, tx, h); err != nil {
		return in, err
	}
	return in, writeKeys(ctx, tx, h)
}

func checkHook(h seedbed.Hook) error {
	if err := seedbed.CheckQualified("hook", h.Project, h.Name); err != nil {
		return err
	}
	if h.Tolerance < 0 {
		return seedbed.Errorf(seedbed.ErrInvalid, "hook %q: tolerance is %s: expected 0s or more", h.Name, h.Tolerance)
	}
	return checkKeys(h)
}

// writeProfiles writes which profiles a hook allows: those that its project means by their names.
func writeProfiles(ctx context.Context, tx *sqldb.Tx, h seedbed.Hook) error {
	if err := sqldb.Exec(ctx, tx, `DELETE FROM hook_profile WHERE hook = $1`, h.Name); err != nil {
		return err
	}
	for i, name := range h.Profiles {
		missing := seedbed.Errorf(seedbed.ErrInvalid, "hook %q: profile %q does not exist", h.Name, sqldb.Clean(name, 80))
		p, err := catalogue.Resolve(ctx, tx, seedbed.PublishedProfile, seedbed.ProjectOf(h.Name), name)
		if errors.Is(err, seedbed.ErrNotFound) {
			err = missing
		}
		if err != nil {
			return err
		}
		if err := holdProfile(ctx, tx, p, missing); err != nil {
			return err
		}
		err = sqldb.Exec(ctx, tx, `INSERT INTO hook_profile (hook, idx, profile) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, h.Name, i, p)
		if err != nil {
			return err
		}
	}
	return nil
}

// holdProfile locks a profile, so that it is not removed before the transaction ends.
func holdProfile(ctx context.Context, tx *sqldb.Tx, name string, missing error) error {
	n, err := sqldb.Affect(ctx, tx, `UPDATE profile SET name = name WHERE name = $1`, name)
	if err != nil && sqldb.Unstorable(err) || err == nil && n == 0 {
		return missing
	}
	return err
}

// UpdateHook changes a hook's settings; its keys stay. It returns ErrConflict for a hook that the
// configuration declares, and for one that was changed since h.Changed, unless that is zero. The hook as
// it was must pass the checks.
func (s *Store) UpdateHook(ctx context.Context, h seedbed.Hook, checks ...func(seedbed.Hook) error) (made seedbed.Hook, err error) {
	err = s.db.Update(ctx, "update hook "+h.Name, func(tx *sqldb.Tx) error {
		old, err := lockHook(ctx, tx, h.Name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(old, checks); err != nil {
			return err
		}
		if old.Scheme != h.Scheme {
			return seedbed.Errorf(seedbed.ErrConflict, "hook %q has scheme %s, and its keys cannot be used for %s: add another hook",
				h.Name, old.Scheme, h.Scheme)
		}
		if !h.Changed.IsZero() && !h.Changed.Equal(old.Changed) {
			return seedbed.Errorf(seedbed.ErrConflict, "hook %q was changed in the meantime: read it again, and change that version", h.Name)
		}
		h.Keys = old.Keys
		if err := checkHook(h); err != nil {
			return err
		}
		if err := setHook(ctx, tx, h); err != nil {
			return err
		}
		made, err = readHook(ctx, tx, h.Name)
		return err
	})
	if err != nil {
		return seedbed.Hook{}, err
	}
	return made, nil
}

func setHook(ctx context.Context, tx *sqldb.Tx, h seedbed.Hook) error {
	err := sqldb.Exec(ctx, tx, `UPDATE hook SET settings = $1, actions = $2, tolerance = $3, changed = $4 WHERE name = $5`,
		sqldb.AsJSON(h.HookSettings), sqldb.AsJSON(sqldb.OrEmpty(h.Actions)), h.Tolerance.Microseconds(), sqldb.Micros(sqldb.Now()), h.Name)
	if err != nil {
		return err
	}
	return writeProfiles(ctx, tx, h)
}

// lockHook reads a hook that is to be changed, and locks its row.
func lockHook(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Hook, error) {
	if err := sqldb.Exec(ctx, tx, `UPDATE hook SET name = name WHERE name = $1`, name); err != nil {
		return seedbed.Hook{}, err
	}
	h, err := readHook(ctx, tx, name)
	if err == nil && h.Declared {
		err = seedbed.Errorf(seedbed.ErrConflict, "hook %q is declared in the configuration: change it there (webhook.hooks)", name)
	}
	return h, err
}

// Hook returns the hook called name, with its keys.
func (s *Store) Hook(ctx context.Context, name string) (seedbed.Hook, error) {
	return sqldb.Cached(s.db, "hook", name, s.read(ctx, name))
}

// HookNow is Hook without the cache, which may be out of date for a moment after another process
// changed the hook.
func (s *Store) HookNow(ctx context.Context, name string) (h seedbed.Hook, err error) {
	if s.db.Dialect.Announce == "" { // no other process writes
		return s.Hook(ctx, name)
	}
	return sqldb.Renewed(s.db, "hook", name, s.read(ctx, name))
}

// read returns a function that reads a hook in a transaction of its own.
func (s *Store) read(ctx context.Context, name string) func() (seedbed.Hook, error) {
	return func() (h seedbed.Hook, err error) {
		err = s.db.View(ctx, "read hook", func(tx *sqldb.Tx) error {
			h, err = readHook(ctx, tx, name)
			return err
		})
		return h, err
	}
}

func readHook(ctx context.Context, tx *sqldb.Tx, name string) (h seedbed.Hook, err error) {
	h, err = sqldb.One(ctx, tx, scanHook, noHook(name), `SELECT `+hookColumns+` FROM hook WHERE name = $1`, name)
	if err != nil {
		return h, err
	}
	return h, complete(ctx, tx, &h)
}

// complete reads the profiles and keys of a hook.
func complete(ctx context.Context, tx *sqldb.Tx, h *seedbed.Hook) (err error) {
	if h.Profiles, err = sqldb.List(ctx, tx, sqldb.Value[string], `SELECT profile FROM hook_profile WHERE hook = $1 ORDER BY idx`,
		h.Name); err != nil {
		return err
	}
	if seedbed.ProjectOf(h.Name) != seedbed.DefaultProject { // its short names are those of its own profiles
		for i, p := range h.Profiles {
			h.Profiles[i] = seedbed.Explicit(p)
		}
	}
	h.Keys, err = hookKeys(ctx, tx, h.Name)
	return err
}

func noHook(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "hook %q does not exist", sqldb.Clean(name, 80))
}

// Hooks returns all hooks sorted by name, with their keys.
func (s *Store) Hooks(ctx context.Context) (all []seedbed.Hook, err error) {
	err = s.db.View(ctx, "list hooks", func(tx *sqldb.Tx) error {
		if all, err = sqldb.List(ctx, tx, scanHook, `SELECT `+hookColumns+` FROM hook ORDER BY name`); err != nil {
			return err
		}
		for i := range all {
			if err := complete(ctx, tx, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// DeleteHook removes a hook. The history of its deliveries stays. It returns ErrConflict for a hook
// that the configuration declares. If the hook does not pass a check, it returns the error of that.
func (s *Store) DeleteHook(ctx context.Context, name string, checks ...func(seedbed.Hook) error) error {
	return s.db.Update(ctx, "delete hook", func(tx *sqldb.Tx) error {
		h, err := lockHook(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(h, checks); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM hook WHERE name = $1`, name)
	})
}
