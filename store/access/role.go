package access

import (
	"context"
	"errors"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/sqldb"
)

const roleColumns = `name, description, actions, revision, created, changed`

func scanRole(r sqldb.Row) (one seedbed.CustomRole, err error) {
	err = r.Scan(&one.Name, &one.Description, sqldb.ToJSON(&one.Actions), &one.Revision,
		sqldb.ToTime(&one.Created), sqldb.ToTime(&one.Changed))
	return one, err
}

// CreateRole adds a role, and returns it. It returns ErrExists if there is one of that name, and
// ErrConflict for the name of a built-in one.
func (s *Store) CreateRole(ctx context.Context, r seedbed.CustomRole) (seedbed.CustomRole, error) {
	if err := r.Check(); err != nil {
		return seedbed.CustomRole{}, err
	}
	r.Description, r.Actions, r.Revision = sqldb.Clean(r.Description, seedbed.MaxRoleDescription), sorted(r.Actions), 1
	r.Created = sqldb.Now()
	r.Changed = r.Created
	err := s.db.Update(ctx, "create role "+string(r.Name), func(tx *sqldb.Tx) error {
		n, err := sqldb.Affect(ctx, tx, `INSERT INTO role (`+roleColumns+`) VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT DO NOTHING`,
			r.Name, r.Description, sqldb.AsJSON(r.Actions), r.Revision, sqldb.Micros(r.Created))
		if err == nil && n == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "role %q exists already", r.Name)
		}
		return err
	})
	if err != nil {
		return seedbed.CustomRole{}, err
	}
	return r, nil
}

func sorted(actions []string) []string { return slices.Sorted(slices.Values(actions)) }

// Role returns the role of that name, if it was made.
func (s *Store) Role(ctx context.Context, name seedbed.Role) (r seedbed.CustomRole, err error) {
	err = s.db.View(ctx, "read role", func(tx *sqldb.Tx) error {
		r, err = sqldb.One(ctx, tx, scanRole, seedbed.NoRole(name), `SELECT `+roleColumns+` FROM role WHERE name = $1`, name)
		return err
	})
	return r, err
}

// RoleOf is like Role, but fast: it may be called for each request.
func (s *Store) RoleOf(ctx context.Context, name seedbed.Role) (seedbed.CustomRole, error) {
	return sqldb.Cached(s.db, "role", string(name), func() (seedbed.CustomRole, error) { return s.Role(ctx, name) })
}

// CustomRoles returns all roles that were made, sorted by name.
func (s *Store) CustomRoles(ctx context.Context) (all []seedbed.CustomRole, err error) {
	err = s.db.View(ctx, "list roles", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, scanRole, `SELECT `+roleColumns+` FROM role ORDER BY name`)
		return err
	})
	return all, err
}

// lockRole returns a role that was made, and locks its row for the rest of the transaction. It returns
// ErrConflict for a built-in one.
func lockRole(ctx context.Context, tx *sqldb.Tx, name seedbed.Role) (seedbed.CustomRole, error) {
	if err := name.CheckCustom(); err != nil {
		return seedbed.CustomRole{}, err
	}
	return sqldb.LockOne(ctx, tx, scanRole, seedbed.NoRole(name),
		`UPDATE role SET revision = revision WHERE name = $1 RETURNING `+roleColumns, name)
}

// holdRole returns ErrInvalid unless there is a role of that name. If it was made, it locks its row, so
// that it is not removed before the transaction ends.
func holdRole(ctx context.Context, tx *sqldb.Tx, name seedbed.Role) error {
	if _, ok := name.BuiltIn(); ok {
		return nil
	}
	_, err := lockRole(ctx, tx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "role %q does not exist", sqldb.Clean(string(name), 80))
	}
	return err
}

// ChangeRole applies change to a role's description and actions. Callers that have the role can do what
// it then says from now on.
func (s *Store) ChangeRole(
	ctx context.Context, name seedbed.Role, change func(*seedbed.CustomRole) error,
) (r seedbed.CustomRole, err error) {
	err = s.db.Update(ctx, "change role "+sqldb.Clean(string(name), 80), func(tx *sqldb.Tx) error {
		if r, err = lockRole(ctx, tx, name); err != nil {
			return err
		}
		was := r
		if err := change(&r); err != nil {
			return err
		}
		if r.Name, r.Actions = was.Name, sorted(r.Actions); r.Description == was.Description && slices.Equal(r.Actions, was.Actions) {
			return sqldb.ErrUnchanged
		}
		if err := r.Check(); err != nil {
			return err
		}
		r.Description, r.Revision, r.Changed = sqldb.Clean(r.Description, seedbed.MaxRoleDescription), was.Revision+1, sqldb.Now()
		return sqldb.Exec(ctx, tx, `UPDATE role SET description = $1, actions = $2, revision = $3, changed = $4 WHERE name = $5`,
			r.Description, sqldb.AsJSON(r.Actions), r.Revision, sqldb.Micros(r.Changed), name)
	})
	return r, err
}

// DeleteRole removes a role that no token has. It returns ErrInUse, naming the tokens that have it.
func (s *Store) DeleteRole(ctx context.Context, name seedbed.Role, checks ...func(seedbed.CustomRole) error) error {
	return s.db.Update(ctx, "remove role "+sqldb.Clean(string(name), 80), func(tx *sqldb.Tx) error {
		r, err := lockRole(ctx, tx, name)
		if err != nil {
			return err
		}
		if err := sqldb.Pass(r, checks); err != nil {
			return err
		}
		tokens, err := sqldb.List(ctx, tx, ScanToken,
			`SELECT `+TokenColumns+` FROM token WHERE role = $1 OR grants <> '[]' ORDER BY name`, name)
		if err != nil {
			return err
		}
		var users []string
		for _, t := range tokens {
			if slices.ContainsFunc(t.AllGrants(), func(g seedbed.Grant) bool { return g.Role == name }) {
				users = append(users, t.Name)
			}
		}
		const most = 20
		if len(users) > most {
			users = append(users[:most], "…")
		}
		if users != nil {
			return seedbed.Errorf(seedbed.ErrInUse, "role %q is that of token %s; remove these first", name, strings.Join(users, ", "))
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM role WHERE name = $1`, name)
	})
}
