package outbox

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"seedbed"
	"seedbed/store/sqldb"
)

// The size limits of an endpoint's HMAC key in bytes, from Standard Webhooks.
const minEndpointKey, maxEndpointKey = 24, 64

// newEndpointKeys checks keys, at most one of each version, and gives them IDs.
func newEndpointKeys(endpoint string, keys []seedbed.EndpointKey) ([]seedbed.EndpointKey, error) {
	if len(keys) == 0 {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "endpoint %q has no key: expected one of each version that it signs", endpoint)
	}
	var named []seedbed.EndpointKey
	for _, k := range keys {
		if k.Version == "" {
			k.Version = seedbed.SignV1
		}
		least, most := minEndpointKey, maxEndpointKey
		if k.Version == seedbed.SignV1a {
			least, most = ed25519.SeedSize, ed25519.SeedSize
		}
		switch {
		case !slices.Contains(seedbed.SignVersions(), k.Version):
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "endpoint %q: version %q is unknown: expected some of %v",
				endpoint, sqldb.Clean(k.Version, 80), seedbed.SignVersions())
		case slices.ContainsFunc(named, func(n seedbed.EndpointKey) bool { return n.Version == k.Version }):
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "endpoint %q has two keys of version %s: expected one", endpoint, k.Version)
		case len(k.Key) < least || len(k.Key) > most:
			return nil, seedbed.Errorf(seedbed.ErrInvalid, "endpoint %q: its key has %d bytes: expected %d to %d", endpoint, len(k.Key), least, most)
		}
		id := make([]byte, 4)
		rand.Read(id) // never fails (crypto/rand)
		named = append(named,
			seedbed.EndpointKey{ID: hex.EncodeToString(id), Version: k.Version, Key: k.Key, Public: k.Public, Created: sqldb.Now()})
	}
	return named, nil
}

const newKeyColumns = `id, version, key, public_key, created`

func addKeys(ctx context.Context, tx *sqldb.Tx, endpoint string, keys []seedbed.EndpointKey) error {
	for _, k := range keys {
		err := sqldb.Exec(ctx, tx, `INSERT INTO endpoint_key (`+newKeyColumns+`, endpoint) VALUES ($1, $2, $3, $4, $5, $6)`,
			k.ID, k.Version, k.Key, k.Public, sqldb.Micros(k.Created), endpoint)
		if err != nil {
			return err
		}
	}
	return nil
}

// endpointKeys returns the keys that currently sign, oldest first.
func endpointKeys(ctx context.Context, tx *sqldb.Tx, name string) ([]seedbed.EndpointKey, error) {
	return sqldb.List(ctx, tx, func(r sqldb.Row) (k seedbed.EndpointKey, err error) {
		err = r.Scan(&k.ID, &k.Version, sqldb.ToBlob(&k.Key), &k.Public, sqldb.ToTime(&k.Created), sqldb.ToTime(&k.Expires))
		return k, err
	}, `SELECT `+newKeyColumns+`, expires FROM endpoint_key
		WHERE endpoint = $1 AND (expires IS NULL OR expires > $2) ORDER BY created, id`,
		name, sqldb.Micros(sqldb.Now()))
}

// RotateEndpointKeys adds keys, one of each version that the endpoint signs from now on. The
// existing keys keep signing beside them for the duration of overlap. More than
// [seedbed.MaxEndpointKeys] of a version is ErrConflict. The endpoint as it was must pass the checks.
func (s *Store) RotateEndpointKeys(
	ctx context.Context, name string, keys []seedbed.EndpointKey, overlap time.Duration, checks ...func(seedbed.Endpoint) error,
) (e seedbed.Endpoint, err error) {
	if keys, err = newEndpointKeys(name, keys); err != nil {
		return e, err
	}
	if overlap < 0 {
		return e, seedbed.Errorf(seedbed.ErrInvalid, "an overlap of %s is not possible: expected 0 or more", overlap)
	}
	err = s.db.Update(ctx, "rotate key of endpoint", func(tx *sqldb.Tx) error {
		if _, err := lockEndpoint(ctx, tx, name, checks); err != nil {
			return err
		}
		end := sqldb.Now().Add(overlap)
		err := sqldb.Exec(ctx, tx, `UPDATE endpoint_key SET expires = $1 WHERE endpoint = $2 AND (expires IS NULL OR expires > $1)`,
			sqldb.Micros(end), name)
		if err != nil {
			return err
		}
		if err := sqldb.Exec(ctx, tx, `DELETE FROM endpoint_key WHERE endpoint = $1 AND expires <= $2`,
			name, sqldb.Micros(sqldb.Now())); err != nil {
			return err
		}
		if err := addKeys(ctx, tx, name, keys); err != nil {
			return err
		}
		if e, err = readEndpoint(ctx, tx, name); err != nil {
			return err
		}
		counts := map[string]int{}
		for _, k := range e.Keys {
			if counts[k.Version]++; counts[k.Version] > seedbed.MaxEndpointKeys {
				return seedbed.Errorf(seedbed.ErrConflict,
					"endpoint %q still has %d keys that sign: wait until one ends, or rotate without overlap", name, seedbed.MaxEndpointKeys)
			}
		}
		return nil
	})
	return e, err
}

func orMissing(err error, endpoint string) error {
	if err == nil {
		err = noEndpoint(endpoint)
	}
	return err
}
