package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"seedbed"
	"seedbed/store/sqldb"
)

// The settings that the store creates itself, once per database.
const (
	// settingGeneration shows a follower of the feed that the database was replaced.
	settingGeneration = "feed.generation"
	// settingTokenKey is the key of IMDSv2 session tokens. The feed carries it to the nodes.
	settingTokenKey = "metadata.token_key"
)

// The limits of a setting, in bytes.
const (
	maxSettingKey = 128
	maxSetting    = 64 << 10
)

// seed creates the store's own settings.
func (db *DB) seed(ctx context.Context) error {
	for key, size := range map[string]int{settingGeneration: 16, settingTokenKey: 32} {
		_, err := db.SettingOnce(ctx, key, func() []byte {
			b := make([]byte, size)
			rand.Read(b) // never fails (crypto/rand)
			return b
		})
		if err != nil {
			return err
		}
	}
	return db.Always(ctx)
}

// SettingOnce returns the value stored under key. If there is none, it stores the result of fresh,
// which must have 1 byte to 64 KiB. If several callers do so at the same time, one value is stored
// and all of them get it.
func (db *DB) SettingOnce(ctx context.Context, key string, fresh func() []byte) ([]byte, error) {
	if key == "" || len(key) > maxSettingKey {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "a setting's key has 1 to %d bytes, not %d", maxSettingKey, len(key))
	}
	var kept []byte
	err := db.sql.Update(ctx, "keep setting "+key, func(tx *sqldb.Tx) error {
		var err error
		if kept, err = setting(ctx, tx, key); err != nil || kept != nil {
			return sqldb.OrUnchanged(err)
		}
		v := fresh()
		if len(v) == 0 || len(v) > maxSetting {
			return seedbed.Errorf(seedbed.ErrInvalid, "setting %s has %d bytes: want 1 to %d", key, len(v), maxSetting)
		}
		err = sqldb.Exec(ctx, tx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, key, v)
		if err != nil {
			return err
		}
		kept, err = setting(ctx, tx, key)
		return err
	})
	return kept, err
}

// setting returns the value stored under key, or nil.
func setting(ctx context.Context, tx *sqldb.Tx, key string) ([]byte, error) {
	return sqldb.One(ctx, tx, func(r sqldb.Row) (b []byte, err error) {
		err = r.Scan(sqldb.ToBlob(&b))
		return b, err
	}, nil, `SELECT value FROM setting WHERE key = $1`, key)
}

// generation returns the random ID of this database.
func generation(ctx context.Context, tx *sqldb.Tx) (string, error) {
	b, err := setting(ctx, tx, settingGeneration)
	return hex.EncodeToString(b), err
}
