package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// The limits of a hook's keys. The minimum is the size of the shortest secret that a scheme lets
// users choose; the schemes themselves require more.
const (
	minHookKey  = 16
	maxHookKey  = 1024
	maxHookKeys = 16
)

func checkKeys(h seedbed.Hook) error {
	if len(h.Keys) > maxHookKeys {
		return seedbed.Errorf(seedbed.ErrInvalid, "hook %q has %d keys: expected at most %d", h.Name, len(h.Keys), maxHookKeys)
	}
	seen := map[string]bool{}
	for _, k := range h.Keys {
		if err := seedbed.CheckName("key", k.ID); err != nil {
			return err
		}
		switch {
		case seen[k.ID]:
			return seedbed.Errorf(seedbed.ErrInvalid, "hook %q: two keys are called %q", h.Name, k.ID)
		case len(k.Secret) < minHookKey || len(k.Secret) > maxHookKey:
			return seedbed.Errorf(seedbed.ErrInvalid, "hook %q: key %q has %d bytes: expected %d to %d",
				h.Name, k.ID, len(k.Secret), minHookKey, maxHookKey)
		case !k.NotAfter.IsZero() && !k.NotAfter.After(k.NotBefore):
			return seedbed.Errorf(seedbed.ErrInvalid, "hook %q: key %q ends before it begins", h.Name, k.ID)
		}
		seen[k.ID] = true
	}
	return nil
}

func hookKeys(ctx context.Context, tx *sqldb.Tx, hook string) ([]seedbed.HookKey, error) {
	return sqldb.List(ctx, tx, func(r sqldb.Row) (k seedbed.HookKey, err error) {
		err = r.Scan(&k.ID, sqldb.ToBlob(&k.Secret), sqldb.ToTime(&k.NotBefore), sqldb.ToTime(&k.NotAfter))
		return k, err
	}, `SELECT `+keyColumns+` FROM hook_key WHERE hook = $1 ORDER BY idx, id`, hook)
}

const keyColumns = `id, secret, not_before, not_after`

// writeKeys replaces the keys of a hook.
func writeKeys(ctx context.Context, tx *sqldb.Tx, h seedbed.Hook) error {
	if err := sqldb.Exec(ctx, tx, `DELETE FROM hook_key WHERE hook = $1`, h.Name); err != nil {
		return err
	}
	for i, k := range h.Keys {
		err := sqldb.Exec(ctx, tx, `INSERT INTO hook_key (`+keyColumns+`, hook, idx) VALUES ($1, $2, $3, $4, $5, $6)`,
			k.ID, k.Secret, sqldb.Micros(k.NotBefore), sqldb.Micros(k.NotAfter), h.Name, i)
		if err != nil {
			return err
		}
	}
	return sqldb.Exec(ctx, tx, `UPDATE hook SET key = $1 WHERE name = $2`, formerKey(h), h.Name)
}

// formerKey returns the value of the column that the previous release reads: the newest key if that
// release knows the scheme, and otherwise a random key.
func formerKey(h seedbed.Hook) []byte {
	if h.Scheme == seedbed.SchemeStandard && len(h.Keys) > 0 {
		return h.Keys[len(h.Keys)-1].Secret
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	return key
}

// changeKeys changes the keys of a hook with its row locked, and returns the changed hook. change
// may be called more than once.
func (s *Store) changeKeys(ctx context.Context, what, name string, change func(*seedbed.Hook) error) (h seedbed.Hook, err error) {
	err = s.db.Update(ctx, what+" of hook "+name, func(tx *sqldb.Tx) error {
		if h, err = lockHook(ctx, tx, name); err != nil {
			return err
		}
		if err := change(&h); err != nil {
			return err
		}
		if err := writeKeys(ctx, tx, h); err != nil {
			return err
		}
		h, err = readHook(ctx, tx, name)
		return err
	})
	if err != nil {
		return seedbed.Hook{}, err
	}
	return h, nil
}

// RotateHook adds a key to a hook. The existing keys stay valid until the overlap ends, or until
// they expire if that is earlier. The overlap begins when the new key becomes valid. Keys that have
// expired are removed. The hook as it was must pass the checks.
func (s *Store) RotateHook(
	ctx context.Context, name string, key seedbed.HookKey, overlap time.Duration, checks ...func(seedbed.Hook) error,
) (seedbed.Hook, error) {
	return s.changeKeys(ctx, "rotate key", name, func(h *seedbed.Hook) error {
		if err := sqldb.Pass(*h, checks); err != nil {
			return err
		}
		at := sqldb.Now()
		until := at.Add(overlap)
		if key.NotBefore.After(at) {
			until = key.NotBefore.Add(overlap)
		}
		var kept []seedbed.HookKey
		for _, k := range h.Keys {
			if bytes.Equal(k.Secret, key.Secret) {
				return seedbed.Errorf(seedbed.ErrExists, "hook %q has that key already, as %q", name, k.ID)
			}
			if k.NotAfter.IsZero() || k.NotAfter.After(until) {
				k.NotAfter = until
			}
			if k.NotAfter.After(at) && k.NotAfter.After(k.NotBefore) {
				kept = append(kept, k)
			}
		}
		h.Keys = append(kept, key)
		return checkKeys(*h)
	})
}

// RemoveHookKey removes a key from a hook; what is signed with it is refused from then on. The hook
// with and without the key must pass check. A key that does not exist is ErrNotFound.
func (s *Store) RemoveHookKey(ctx context.Context, name, id string, check func(was, left seedbed.Hook) error) (seedbed.Hook, error) {
	return s.changeKeys(ctx, "remove key", name, func(h *seedbed.Hook) error {
		was := *h
		kept := slices.DeleteFunc(slices.Clone(h.Keys), func(k seedbed.HookKey) bool { return k.ID == id })
		if len(kept) == len(h.Keys) {
			return seedbed.Errorf(seedbed.ErrNotFound, "hook %q has no key %q", name, sqldb.Clean(id, 80))
		}
		h.Keys = kept
		return check(was, *h)
	})
}
