package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"time"

	"seedbed"
)

const endpointColumns = `name, url, events, cloudevents, allow_private, insecure, enabled, reason, failures, failing_since, open_until, created`

func scanEndpoint(r row) (e seedbed.Endpoint, err error) {
	err = r.Scan(&e.Name, &e.URL, toJSON{&e.Events}, &e.CloudEvents, &e.AllowPrivate, &e.Insecure, &e.Enabled, &e.Reason,
		&e.Failures, toTime{&e.FailingSince}, toTime{&e.OpenUntil}, toTime{&e.Created})
	return e, err
}

// CreateEndpoint adds a receiver of events, which must come with one key, and
// returns it enabled. It is told what happens from then on.
func (db *DB) CreateEndpoint(ctx context.Context, e seedbed.Endpoint) (seedbed.Endpoint, error) {
	if err := e.Check(); err != nil {
		return seedbed.Endpoint{}, err
	}
	if len(e.Keys) != 1 {
		return seedbed.Endpoint{}, seedbed.Errorf(seedbed.ErrInvalid, "endpoint %q comes with %d keys: want one", e.Name, len(e.Keys))
	}
	key, err := newEndpointKey(e.Name, e.Keys[0].Key)
	if err != nil {
		return seedbed.Endpoint{}, err
	}
	err = db.update(ctx, "create endpoint "+e.Name, func(tx *sql.Tx) error {
		made, err := affect(ctx, tx, `
			INSERT INTO endpoint (name, url, events, cloudevents, allow_private, insecure, enabled, created)
			VALUES ($1, $2, $3, $4, $5, $6, 1, $7) ON CONFLICT DO NOTHING`,
			e.Name, e.URL, asJSON{e.Events}, flag(e.CloudEvents), flag(e.AllowPrivate), flag(e.Insecure), micros(now()))
		if err != nil {
			return err
		}
		if made == 0 {
			return seedbed.Errorf(seedbed.ErrExists, "endpoint %q exists already", e.Name)
		}
		if err := addKey(ctx, tx, e.Name, key); err != nil {
			return err
		}
		e, err = readEndpoint(ctx, tx, e.Name)
		return err
	})
	if err != nil {
		return seedbed.Endpoint{}, err
	}
	return e, nil
}

// The bounds of an endpoint's key in bytes, as Standard Webhooks has them.
const minEndpointKey, maxEndpointKey = 24, 64

// newEndpointKey names a key.
func newEndpointKey(endpoint string, key []byte) (seedbed.EndpointKey, error) {
	if len(key) < minEndpointKey || len(key) > maxEndpointKey {
		return seedbed.EndpointKey{}, seedbed.Errorf(seedbed.ErrInvalid, "endpoint %q: its key has %d bytes: want %d to %d", endpoint, len(key), minEndpointKey, maxEndpointKey)
	}
	id := make([]byte, 4)
	rand.Read(id) // never fails (crypto/rand)
	return seedbed.EndpointKey{ID: hex.EncodeToString(id), Key: key, Created: now()}, nil
}

func addKey(ctx context.Context, tx *sql.Tx, endpoint string, k seedbed.EndpointKey) error {
	return exec(ctx, tx, `INSERT INTO endpoint_key (endpoint, id, key, created) VALUES ($1, $2, $3, $4)`, endpoint, k.ID, k.Key, micros(k.Created))
}

func noEndpoint(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "endpoint %q does not exist", clean(name, 80))
}

func readEndpoint(ctx context.Context, tx *sql.Tx, name string) (seedbed.Endpoint, error) {
	e, err := one(ctx, tx, scanEndpoint, noEndpoint(name), `SELECT `+endpointColumns+` FROM endpoint WHERE name = $1`, name)
	if err != nil {
		return e, err
	}
	e.Keys, err = endpointKeys(ctx, tx, name)
	return e, err
}

// endpointKeys are the keys that sign now, the oldest first.
func endpointKeys(ctx context.Context, tx *sql.Tx, name string) ([]seedbed.EndpointKey, error) {
	return list(ctx, tx, func(r row) (k seedbed.EndpointKey, err error) {
		err = r.Scan(&k.ID, toBlob{&k.Key}, toTime{&k.Created}, toTime{&k.Expires})
		return k, err
	}, `SELECT id, key, created, expires FROM endpoint_key WHERE endpoint = $1 AND (expires IS NULL OR expires > $2) ORDER BY created, id`,
		name, micros(now()))
}

// Endpoint returns the endpoint called name, its keys included.
func (db *DB) Endpoint(ctx context.Context, name string) (e seedbed.Endpoint, err error) {
	err = db.view(ctx, "read endpoint", func(tx *sql.Tx) error {
		e, err = readEndpoint(ctx, tx, name)
		return err
	})
	return e, err
}

// Endpoints returns all endpoints by name, their keys included.
func (db *DB) Endpoints(ctx context.Context) (all []seedbed.Endpoint, err error) {
	err = db.view(ctx, "list endpoints", func(tx *sql.Tx) error {
		if all, err = list(ctx, tx, scanEndpoint, `SELECT `+endpointColumns+` FROM endpoint ORDER BY name`); err != nil {
			return err
		}
		for i := range all {
			if all[i].Keys, err = endpointKeys(ctx, tx, all[i].Name); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// DeleteEndpoint removes an endpoint with everything that is on its way to it.
func (db *DB) DeleteEndpoint(ctx context.Context, name string) error {
	return db.update(ctx, "delete endpoint", func(tx *sql.Tx) error {
		n, err := affect(ctx, tx, `DELETE FROM endpoint WHERE name = $1`, name)
		if err == nil && n == 0 {
			err = noEndpoint(name)
		}
		return err
	})
}

// SetEndpointEnabled enables an endpoint, with its failures forgotten, or
// disables it: then what is pending is skipped, and so is what happens until it
// is enabled again.
func (db *DB) SetEndpointEnabled(ctx context.Context, name string, enabled bool) (e seedbed.Endpoint, err error) {
	err = db.update(ctx, "change endpoint", func(tx *sql.Tx) error {
		if enabled {
			err = exec(ctx, tx, `UPDATE endpoint SET enabled = 1, reason = '', failures = 0, failing_since = NULL, open_until = NULL WHERE name = $1`, name)
		} else {
			err = disable(ctx, tx, name, seedbed.DisabledByOperator)
		}
		if err != nil {
			return err
		}
		e, err = readEndpoint(ctx, tx, name)
		return err
	})
	return e, err
}

// disable keeps why, unless the endpoint was disabled before.
func disable(ctx context.Context, tx *sql.Tx, name, why string) error {
	if err := exec(ctx, tx, `UPDATE endpoint SET enabled = 0, reason = $1 WHERE name = $2 AND enabled = 1`, clean(why, maxText), name); err != nil {
		return err
	}
	return exec(ctx, tx, `UPDATE outbox SET state = 'skipped', next_at = NULL WHERE endpoint = $1 AND state = 'pending'`, name)
}

// RotateEndpointKey adds a key. Those that there are sign for the time of the
// overlap still, beside it. More than [seedbed.MaxEndpointKeys] give ErrConflict.
func (db *DB) RotateEndpointKey(ctx context.Context, name string, key []byte, overlap time.Duration) (e seedbed.Endpoint, err error) {
	k, err := newEndpointKey(name, key)
	if err != nil {
		return e, err
	}
	if overlap < 0 {
		return e, seedbed.Errorf(seedbed.ErrInvalid, "an overlap of %s is none", overlap)
	}
	err = db.update(ctx, "rotate key of endpoint", func(tx *sql.Tx) error {
		// The endpoint's row is locked, so that two rotations take turns.
		if n, err := affect(ctx, tx, `UPDATE endpoint SET epoch = epoch WHERE name = $1`, name); err != nil || n == 0 {
			return orMissing(err, name)
		}
		end := now().Add(overlap)
		err := exec(ctx, tx, `UPDATE endpoint_key SET expires = $1 WHERE endpoint = $2 AND (expires IS NULL OR expires > $1)`, micros(end), name)
		if err != nil {
			return err
		}
		if err := exec(ctx, tx, `DELETE FROM endpoint_key WHERE endpoint = $1 AND expires <= $2`, name, micros(now())); err != nil {
			return err
		}
		if err := addKey(ctx, tx, name, k); err != nil {
			return err
		}
		if e, err = readEndpoint(ctx, tx, name); err != nil {
			return err
		}
		if len(e.Keys) > seedbed.MaxEndpointKeys {
			return seedbed.Errorf(seedbed.ErrConflict, "endpoint %q has %d keys that sign still: wait for the end of one, or rotate without overlap", name, len(e.Keys)-1)
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
