package catalogue

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/store/sqldb"
)

// Parts returns the objects that a profile refers to, as of one moment. It returns ErrInvalid if
// one of them does not exist.
func (s *Store) Parts(ctx context.Context, profile string, names seedbed.PartNames) (parts seedbed.Parts, err error) {
	missing := func(err error, kind, name string) error {
		if err == nil || errors.Is(err, seedbed.ErrNotFound) || sqldb.Unstorable(err) {
			return seedbed.Errorf(seedbed.ErrInvalid, "the %s %q for profile %q does not exist", kind, sqldb.Clean(name, 80), profile)
		}
		return err
	}
	err = s.db.View(ctx, "read templates", func(tx *sqldb.Tx) error {
		parts = seedbed.Parts{}
		if names.System != "" {
			t, err := sqldb.One(ctx, tx, scanSystem, noObject(kindSystem, names.System),
				`SELECT `+systemRead+` FROM system_template WHERE name = $1`, names.System)
			if err != nil {
				return missing(err, kindSystem, names.System)
			}
			parts.System = &t
		}
		if names.Network != "" {
			found, err := networkTemplates(ctx, tx, seedbed.ExactName(names.Network))
			if err != nil || len(found) != 1 {
				return missing(err, kindNetwork, names.Network)
			}
			parts.Network = &found[0]
		}
		if names.Storage != "" {
			found, err := storageTemplates(ctx, tx, seedbed.ExactName(names.Storage))
			if err != nil || len(found) != 1 {
				return missing(err, kindStorage, names.Storage)
			}
			parts.Storage = &found[0]
		}
		if names.UserData != "" {
			d, err := sqldb.One(ctx, tx, scanDocument, noObject(kindUserData, names.UserData),
				`SELECT id, name, content, revision, created, changed FROM userdata WHERE name = $1`, names.UserData)
			if err != nil {
				return missing(err, kindUserData, names.UserData)
			}
			doc := d.userData()
			parts.UserData = &doc
		}
		if names.Script != "" {
			s, err := sqldb.One(ctx, tx, scanScript, noObject(kindScript, names.Script),
				`SELECT `+scriptColumns+` FROM script WHERE name = $1`, names.Script)
			if err != nil {
				return missing(err, kindScript, names.Script)
			}
			parts.Script = &s
		}
		if names.OVA == "" {
			return nil
		}
		o, err := sqldb.One(ctx, tx, scanOVA, NoOVA(names.OVA), `SELECT `+ovaColumns+` FROM ova WHERE name = $1`, names.OVA)
		if err != nil {
			return missing(err, kindOVA, names.OVA)
		}
		parts.OVA = &o
		o.Volumes, err = OVAVolumes(ctx, tx, names.OVA)
		return err
	})
	return parts, err
}
