// Package backups keeps the targets of backups, with their secrets, and the schedules by which backups are made,
// and whose the backups are. The backups themselves are in the targets.
package backups

import (
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// Store reads and writes the tables of this package. Its methods are safe for concurrent use.
type Store struct{ db *sqldb.DB }

// New returns the store in a database.
func New(db *sqldb.DB) *Store { return &Store{db} }

// settingInstallation is the setting that tells this installation from others.
const settingInstallation = "installation"

// Installation returns what tells this installation from others: a UUID that is drawn at the first call.
func (s *Store) Installation(ctx context.Context) (string, error) {
	id, err := s.db.SettingOnce(ctx, settingInstallation, func() []byte { return []byte(seedbed.NewVolumeID()) })
	return string(id), err
}
