package store

import (
	"bytes"
	"context"
	"encoding/json"

	"seedbed"
	"seedbed/store/sqldb"
)

// settingSite is the setting that SetSite stores.
const settingSite = "metadata.site"

// SetSite sets what the feed tells every guest of the installation.
func (db *DB) SetSite(ctx context.Context, s seedbed.Site) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return db.sql.Update(ctx, "set site", func(tx *sqldb.Tx) error {
		old, err := sqldb.Setting(ctx, tx, settingSite)
		if err != nil {
			return err
		}
		if bytes.Equal(old, raw) {
			return sqldb.ErrUnchanged
		}
		err = sqldb.SetSetting(ctx, tx, settingSite, raw)
		if err != nil {
			return err
		}
		return touchNodes(ctx, tx)
	})
}

// Site returns the last value of SetSite, or the zero value.
func (db *DB) Site(ctx context.Context) (s seedbed.Site, err error) {
	err = db.sql.View(ctx, "read site", func(tx *sqldb.Tx) error {
		s, err = site(ctx, tx)
		return err
	})
	return s, err
}

func site(ctx context.Context, tx *sqldb.Tx) (s seedbed.Site, err error) {
	raw, err := sqldb.Setting(ctx, tx, settingSite)
	if err != nil || raw == nil {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}
