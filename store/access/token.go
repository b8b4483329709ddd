package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// newTokenColumns are the columns that a new token sets besides its digest, and TokenColumns those
// that ScanToken reads.
const (
	newTokenColumns = `name, project, role, created, expires, max_instances, max_vcpus, max_memory, max_disk, grants`
	TokenColumns    = newTokenColumns + `, used`
)

// ScanToken reads a token from a row of TokenColumns.
func ScanToken(r sqldb.Row) (t seedbed.Token, err error) {
	err = r.Scan(&t.Name, &t.Project, &t.Role, sqldb.ToTime(&t.Created), sqldb.ToTime(&t.Expires),
		&t.Quota.Instances, &t.Quota.VCPUs, &t.Quota.Memory, &t.Quota.Disk, sqldb.ToJSON(&t.Grants), sqldb.ToTime(&t.Used))
	if len(t.Grants) == 0 {
		t.Grants = nil
	}
	return t, err
}

// CreateToken stores a token with the digest of its secret, and returns it with its time of
// creation. It returns ErrExists if the name is taken, and ErrForbidden if its project has as many
// as its quota allows.
func (s *Store) CreateToken(ctx context.Context, t seedbed.Token, sum [sha256.Size]byte) (seedbed.Token, error) {
	if err := seedbed.CheckQualified("token", t.Project, t.Name); err != nil {
		return seedbed.Token{}, err
	}
	if err := cmp.Or(seedbed.CheckGrants(t.AllGrants()), t.Quota.Check()); err != nil {
		return seedbed.Token{}, sqldb.Within("token "+t.Name, err)
	}
	t.Project = cmp.Or(t.Project, seedbed.DefaultProject)
	t.Created, t.Used = sqldb.Now(), time.Time{}
	if err := checkExpires(&t, t.Created); err != nil {
		return seedbed.Token{}, err
	}
	if t.Grants == nil {
		t.Grants = []seedbed.Grant{}
	}
	err := s.db.Update(ctx, "create token "+t.Name, func(tx *sqldb.Tx) error {
		in, err := holdGrants(ctx, tx, t.AllGrants())
		if err != nil {
			return err
		}
		made, err := sqldb.Affect(ctx, tx,
			`INSERT INTO token (`+newTokenColumns+`, sha256) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			t.Name, t.Project, t.Role, sqldb.Micros(t.Created), sqldb.Micros(t.Expires),
			t.Quota.Instances, t.Quota.VCPUs, t.Quota.Memory, t.Quota.Disk, sqldb.AsJSON(t.Grants), sum[:])
		if err == nil && made == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "token %q exists already", t.Name)
		}
		if err != nil {
			return err
		}
		return Tokens().Hold(ctx, tx, in)
	})
	if err != nil {
		return seedbed.Token{}, err
	}
	if len(t.Grants) == 0 {
		t.Grants = nil
	}
	return t, nil
}

// checkExpires returns ErrInvalid for a token that has expired at a time.
func checkExpires(t *seedbed.Token, at time.Time) error {
	if t.Expires.IsZero() {
		return nil
	}
	if t.Expires = sqldb.OrNow(t.Expires); t.Expired(at) {
		return seedbed.Errorf(seedbed.ErrInvalid, "token %s: it would have expired at %s already", t.Name, t.Expires.Format(time.RFC3339))
	}
	return nil
}

// holdGrants returns ErrInvalid unless there are the projects and the roles of grants, and keeps them
// from being removed before the transaction ends. It returns the project of the first grant.
func holdGrants(ctx context.Context, tx *sqldb.Tx, grants []seedbed.Grant) (first seedbed.Project, err error) {
	home := grants[0].Project
	grants = slices.SortedFunc(slices.Values(grants), func(a, b seedbed.Grant) int { return strings.Compare(a.Project, b.Project) })
	for _, g := range grants { // in the same order in each transaction
		p, err := HoldProject(ctx, tx, g.Project)
		if err != nil {
			return first, err
		}
		if p.Name == home {
			first = p
		}
	}
	slices.SortFunc(grants, func(a, b seedbed.Grant) int { return cmp.Compare(a.Role, b.Role) })
	for _, g := range grants {
		if err := holdRole(ctx, tx, g.Role); err != nil {
			return first, err
		}
	}
	return first, nil
}

// dropGrants removes the grants for a project from all tokens of others.
func dropGrants(ctx context.Context, tx *sqldb.Tx, project string) error {
	tokens, err := sqldb.List(ctx, tx, ScanToken, `SELECT `+TokenColumns+` FROM token WHERE grants <> '[]' ORDER BY name`)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		left := slices.DeleteFunc(slices.Clone(t.Grants), func(g seedbed.Grant) bool { return g.Project == project })
		if len(left) == len(t.Grants) {
			continue
		}
		if err := sqldb.Exec(ctx, tx, `UPDATE token SET grants = $1 WHERE name = $2`, sqldb.AsJSON(left), t.Name); err != nil {
			return err
		}
	}
	return nil
}

// usedEvery is the precision of a token's last use. It avoids a write for each request.
const usedEvery = time.Minute

// TokenOf returns the token whose secret has that digest, expired or not, and records its use. It
// returns ErrNotFound if there is no such token or it was revoked.
func (s *Store) TokenOf(ctx context.Context, sum [sha256.Size]byte) (t seedbed.Token, err error) {
	none := seedbed.Errorf(seedbed.ErrNotFound, "there is no such token")
	t, err = sqldb.Cached(s.db, "token", string(sum[:]), func() (t seedbed.Token, err error) {
		err = s.db.View(ctx, "read token", func(tx *sqldb.Tx) error {
			t, err = sqldb.One(ctx, tx, ScanToken, none, `SELECT `+TokenColumns+` FROM token WHERE sha256 = $1`, sum[:])
			return err
		})
		return t, err
	})
	if at := sqldb.Now(); err == nil && !t.Expired(at) && at.Sub(t.Used) >= usedEvery {
		t.Used = at
		_, err = s.db.Change(ctx, "note use of token", func(tx *sqldb.Tx) error {
			return sqldb.Exec(ctx, tx, `UPDATE token SET used = $1 WHERE name = $2`, sqldb.Micros(at), t.Name)
		})
	}
	return t, err
}

// Tokens returns all tokens sorted by name.
func (s *Store) Tokens(ctx context.Context) (all []seedbed.Token, err error) {
	err = s.db.View(ctx, "list tokens", func(tx *sqldb.Tx) error {
		all, err = sqldb.List(ctx, tx, ScanToken, `SELECT `+TokenColumns+` FROM token ORDER BY name`)
		return err
	})
	return all, err
}

// SetTokenQuota sets what a token's instances may have from now on. Existing instances stay, even
// if they exceed it. The token as it was must pass the checks.
func (s *Store) SetTokenQuota(
	ctx context.Context, name string, q seedbed.TokenQuota, checks ...func(seedbed.Token) error,
) (t seedbed.Token, err error) {
	if err := q.Check(); err != nil {
		return t, sqldb.Within("token "+sqldb.Clean(name, 80), err)
	}
	err = s.db.Update(ctx, "change quota of token "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if err := holdToken(ctx, tx, name, checks); err != nil {
			return err
		}
		t, err = sqldb.One(ctx, tx, ScanToken, noToken(name),
			`UPDATE token SET max_instances = $1, max_vcpus = $2, max_memory = $3, max_disk = $4 WHERE name = $5 RETURNING `+TokenColumns,
			q.Instances, q.VCPUs, q.Memory, q.Disk, name)
		return err
	})
	return t, err
}

// ChangeToken changes the role, the grants and the end of a token by calling change, possibly more than once, and
// returns the token. It returns ErrNotFound, ErrInvalid, or the error of change.
func (s *Store) ChangeToken(ctx context.Context, name string, change func(*seedbed.Token) error) (t seedbed.Token, err error) {
	err = s.db.Update(ctx, "change token "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if t, err = lockToken(ctx, tx, name); err != nil {
			return err
		}
		was := t
		if err := change(&t); err != nil {
			return err
		}
		if err := seedbed.CheckGrants(t.AllGrants()); err != nil {
			return sqldb.Within("token "+t.Name, err)
		}
		if !t.Expires.Equal(was.Expires) {
			if err := checkExpires(&t, sqldb.Now()); err != nil {
				return err
			}
		}
		if _, err := holdGrants(ctx, tx, t.AllGrants()); err != nil {
			return err
		}
		t, err = sqldb.One(ctx, tx, ScanToken, noToken(name),
			`UPDATE token SET role = $1, grants = $2, expires = $3 WHERE name = $4 RETURNING `+TokenColumns,
			t.Role, sqldb.AsJSON(sqldb.OrEmpty(t.Grants)), sqldb.Micros(t.Expires), name)
		return err
	})
	return t, err
}

// Token returns the token called name.
func (s *Store) Token(ctx context.Context, name string) (t seedbed.Token, err error) {
	err = s.db.View(ctx, "read token", func(tx *sqldb.Tx) error {
		t, err = sqldb.One(ctx, tx, ScanToken, noToken(name), `SELECT `+TokenColumns+` FROM token WHERE name = $1`, name)
		return err
	})
	return t, err
}

func noToken(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "token %q does not exist", sqldb.Clean(name, 80))
}

// holdToken locks the row of a token, which must pass the checks.
func holdToken(ctx context.Context, tx *sqldb.Tx, name string, checks []func(seedbed.Token) error) error {
	t, err := lockToken(ctx, tx, name)
	if err != nil {
		return err
	}
	return sqldb.Pass(t, checks)
}

// lockToken locks the row of a token, and returns the token.
func lockToken(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Token, error) {
	return sqldb.One(ctx, tx, ScanToken, noToken(name), `UPDATE token SET name = name WHERE name = $1 RETURNING `+TokenColumns, name)
}

// DeleteToken revokes a token, which must pass the checks. Its holder is refused from now on.
func (s *Store) DeleteToken(ctx context.Context, name string, checks ...func(seedbed.Token) error) error {
	return s.db.Update(ctx, "revoke token "+sqldb.Clean(name, 80), func(tx *sqldb.Tx) error {
		if err := holdToken(ctx, tx, name, checks); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM token WHERE name = $1`, name)
	})
}
