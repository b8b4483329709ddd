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
			t, err := readSystem(ctx, tx, names.System)
			if err != nil {
				return missing(err, kindSystem, names.System)
			}
			parts.System = &t
		}
		if names.Network != "" {
			t, err := readNetwork(ctx, tx, names.Network)
			if err != nil {
				return missing(err, kindNetwork, names.Network)
			}
			parts.Network = &t
		}
		if names.Storage != "" {
			t, err := readStorage(ctx, tx, names.Storage)
			if err != nil {
				return missing(err, kindStorage, names.Storage)
			}
			parts.Storage = &t
		}
		if names.UserData != "" {
			d, err := readUserData(ctx, tx, names.UserData)
			if err != nil {
				return missing(err, kindUserData, names.UserData)
			}
			parts.UserData = &d
		}
		if names.Script != "" {
			s, err := readScript(ctx, tx, names.Script)
			if err != nil {
				return missing(err, kindScript, names.Script)
			}
			parts.Script = &s
		}
		if names.OVA == "" {
			return nil
		}
		o, err := sqldb.One(ctx, tx, scanOVA, NoOVA(names.OVA), `SELECT id, `+ovaColumns+` FROM ova WHERE name = $1`, names.OVA)
		if err != nil {
			return missing(err, kindOVA, names.OVA)
		}
		parts.OVA = &o
		o.Volumes, err = OVAVolumes(ctx, tx, names.OVA)
		return err
	})
	return parts, err
}
