package store

import (
	"context"
	"database/sql"
	"time"

	"seedbed"
)

const hookColumns = `name, key, actions, tolerance, created`

func scanHook(r row) (h seedbed.Hook, err error) {
	var tolerance int64
	err = r.Scan(&h.Name, toBlob{&h.Key}, toJSON{&h.Actions}, &tolerance, toTime{&h.Created})
	h.Tolerance = time.Duration(tolerance) * time.Microsecond
	return h, err
}

// minHookKey is the least size of an HMAC key in bytes, as Standard Webhooks has it.
const minHookKey = 24

// CreateHook adds a webhook receiver and returns it with its time of creation.
// The tolerance is kept to the microsecond. A profile that does not exist is ErrInvalid.
func (db *DB) CreateHook(ctx context.Context, h seedbed.Hook) (seedbed.Hook, error) {
	if err := checkHook(h); err != nil {
		return seedbed.Hook{}, err
	}
	h.Profiles, h.Actions = orEmpty(h.Profiles), orEmpty(h.Actions)
	h.Created, h.Tolerance = now(), h.Tolerance.Truncate(time.Microsecond)
	err := db.update(ctx, "create hook "+h.Name, func(tx *sql.Tx) error {
		made, err := affect(ctx, tx, `INSERT INTO hook (`+hookColumns+`) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			h.Name, h.Key, asJSON{h.Actions}, h.Tolerance.Microseconds(), micros(h.Created))
		if err != nil {
			return err
		}
		if made == 0 {
			return seedbed.Errorf(seedbed.ErrExists, "hook %q exists already", h.Name)
		}
		for i, p := range h.Profiles {
			missing := seedbed.Errorf(seedbed.ErrInvalid, "hook %q: profile %q does not exist", h.Name, clean(p, 80))
			if _, err := one(ctx, tx, value[int], missing, `SELECT 1 FROM profile WHERE name = $1`, p); err != nil {
				return err
			}
			err := exec(ctx, tx, `INSERT INTO hook_profile (hook, idx, profile) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, h.Name, i, p)
			if err != nil {
				return err
			}
		}
		h.Profiles, err = hookProfiles(ctx, tx, h.Name)
		return err
	})
	if err != nil {
		return seedbed.Hook{}, err
	}
	return h, nil
}

func checkHook(h seedbed.Hook) error {
	if err := seedbed.CheckName("hook", h.Name); err != nil {
		return err
	}
	switch {
	case len(h.Key) < minHookKey || len(h.Key) > 1024:
		return seedbed.Errorf(seedbed.ErrInvalid, "hook %q: its key has %d bytes: want %d to 1024", h.Name, len(h.Key), minHookKey)
	case h.Tolerance < 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "hook %q: tolerance is %s: want none or more", h.Name, h.Tolerance)
	}
	return nil
}

// Hook returns the receiver called name, its key included.
func (db *DB) Hook(ctx context.Context, name string) (h seedbed.Hook, err error) {
	err = db.view(ctx, "read hook", func(tx *sql.Tx) error {
		h, err = one(ctx, tx, scanHook, noHook(name), `SELECT `+hookColumns+` FROM hook WHERE name = $1`, name)
		if err != nil {
			return err
		}
		h.Profiles, err = hookProfiles(ctx, tx, name)
		return err
	})
	return h, err
}

func noHook(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "hook %q does not exist", clean(name, 80))
}

func hookProfiles(ctx context.Context, tx *sql.Tx, name string) ([]string, error) {
	return list(ctx, tx, value[string], `SELECT profile FROM hook_profile WHERE hook = $1 ORDER BY idx`, name)
}

// Hooks returns all receivers by name, their keys included.
func (db *DB) Hooks(ctx context.Context) (all []seedbed.Hook, err error) {
	err = db.view(ctx, "list hooks", func(tx *sql.Tx) error {
		if all, err = list(ctx, tx, scanHook, `SELECT `+hookColumns+` FROM hook ORDER BY name`); err != nil {
			return err
		}
		for i := range all {
			if all[i].Profiles, err = hookProfiles(ctx, tx, all[i].Name); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// DeleteHook removes a receiver. What it delivered stays on record.
func (db *DB) DeleteHook(ctx context.Context, name string) error {
	return db.update(ctx, "delete hook", func(tx *sql.Tx) error {
		n, err := affect(ctx, tx, `DELETE FROM hook WHERE name = $1`, name)
		if err == nil && n == 0 {
			err = noHook(name)
		}
		return err
	})
}
