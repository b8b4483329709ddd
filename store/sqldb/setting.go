package sqldb

import (
	"context"

	"seedbed"
)

// The limits of a setting, in bytes.
const (
	maxSettingKey = 128
	maxSetting    = 64 << 10
)

// SettingOnce returns the value stored under key. If there is none, it stores the result of fresh,
// which must have 1 byte to 64 KiB. If several callers do so at the same time, one value is stored
// and all of them get it.
func (db *DB) SettingOnce(ctx context.Context, key string, fresh func() []byte) ([]byte, error) {
	if key == "" || len(key) > maxSettingKey {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "a setting's key has 1 to %d bytes, not %d", maxSettingKey, len(key))
	}
	var kept []byte
	err := db.Update(ctx, "keep setting "+key, func(tx *Tx) error {
		var err error
		if kept, err = Setting(ctx, tx, key); err != nil || kept != nil {
			return OrUnchanged(err)
		}
		v := fresh()
		if len(v) == 0 || len(v) > maxSetting {
			return seedbed.Errorf(seedbed.ErrInvalid, "setting %s has %d bytes: expected 1 to %d", key, len(v), maxSetting)
		}
		err = Exec(ctx, tx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, key, v)
		if err != nil {
			return err
		}
		kept, err = Setting(ctx, tx, key)
		return err
	})
	return kept, err
}

// Setting returns the value stored under key, or nil.
func Setting(ctx context.Context, tx *Tx, key string) ([]byte, error) {
	return One(ctx, tx, func(r Row) (b []byte, err error) {
		err = r.Scan(ToBlob(&b))
		return b, err
	}, nil, `SELECT value FROM setting WHERE key = $1`, key)
}

// LockSetting locks the row of a setting until the transaction ends. It stores fresh if there is
// none.
func LockSetting(ctx context.Context, tx *Tx, key string, fresh []byte) error {
	return Exec(ctx, tx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET key = excluded.key`, key, fresh)
}

// SetSetting stores a value under key.
func SetSetting(ctx context.Context, tx *Tx, key string, v []byte) error {
	return Exec(ctx, tx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, v)
}
