package feed

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
func (s *Store) SetSite(ctx context.Context, is seedbed.Site) error {
	raw, err := json.Marshal(is)
	if err != nil {
		return err
	}
	return s.db.Update(ctx, "set site", func(tx *sqldb.Tx) error {
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
		return TouchNodes(ctx, tx)
	})
}

// Site returns the last value of SetSite, or the zero value.
func (s *Store) Site(ctx context.Context) (is seedbed.Site, err error) {
	err = s.db.View(ctx, "read site", func(tx *sqldb.Tx) error {
		is, err = site(ctx, tx)
		return err
	})
	return is, err
}

func site(ctx context.Context, tx *sqldb.Tx) (s seedbed.Site, err error) {
	raw, err := sqldb.Setting(ctx, tx, settingSite)
	if err != nil || raw == nil {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}
