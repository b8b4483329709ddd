package catalogue

import (
	"cmp"
	"context"

	"seedbed"
	"seedbed/store/sqldb"
)

// Parts returns the objects that a profile refers to, as of one moment. Their names are those that the
// profile's project uses. It returns ErrInvalid if one of them does not exist, or is not published to that
// project.
func (s *Store) Parts(ctx context.Context, profile string, names seedbed.PartNames) (parts seedbed.Parts, err error) {
	err = s.db.View(ctx, "read templates", func(tx *sqldb.Tx) error {
		parts = seedbed.Parts{}
		p := partReader{ctx, tx, profile}
		return cmp.Or(
			part(p, kindSystem, names.System, readSystem, &parts.System),
			part(p, kindNetwork, names.Network, readNetwork, &parts.Network),
			part(p, kindStorage, names.Storage, readStorage, &parts.Storage),
			part(p, kindUserData, names.UserData, readUserData, &parts.UserData),
			part(p, kindScript, names.Script, readScript, &parts.Script),
			part(p, kindOVA, names.OVA, readOVA, &parts.OVA),
		)
	})
	return parts, err
}

// partReader reads the parts of a profile in a transaction.
type partReader struct {
	ctx     context.Context
	tx      *sqldb.Tx
	profile string
}

// part reads the object that a profile names into a part; an empty name leaves the part out.
func part[T any](
	p partReader, kind seedbed.PublishedKind, name string, read func(context.Context, *sqldb.Tx, string) (T, error), into **T,
) error {
	if name == "" {
		return nil
	}
	qualified, err := Resolve(p.ctx, p.tx, kind, seedbed.ProjectOf(p.profile), name)
	if err != nil {
		return noPart(err, kind, name, p.profile)
	}
	v, err := read(p.ctx, p.tx, qualified)
	if err != nil {
		return noPart(err, kind, name, p.profile)
	}
	*into = &v
	return nil
}
