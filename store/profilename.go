package store

import (
	"context"
	"database/sql"
	"errors"

	"seedbed"
)

// freeProfileName refuses, with ErrExists, a name that a profile of either kind
// has, and says of which.
func freeProfileName(ctx context.Context, tx *Tx, name string, kind seedbed.ProfileKind) error {
	holder, err := one(ctx, tx, value[seedbed.ProfileKind], nil, `SELECT CASE WHEN script IS NULL THEN 'native' ELSE 'provisioner' END FROM profile WHERE name = $1`, name)
	if err != nil || holder == "" {
		return err
	}
	if holder == kind && kind == seedbed.KindProvisioner {
		return objectExists(kindProfile, name)
	}
	if holder == kind {
		return seedbed.Errorf(seedbed.ErrExists, "profile %q exists already", name)
	}
	if holder == seedbed.KindProvisioner {
		return seedbed.Errorf(seedbed.ErrExists, "profile %q exists already: it is a provisioner profile, and both kinds share their names", name)
	}
	return seedbed.Errorf(seedbed.ErrExists, "the profile %q already exists: it is a native profile, and both kinds share their names", name)
}

// ProfileEntries returns the profiles of both kinds, by name.
func (db *DB) ProfileEntries(ctx context.Context) (all []seedbed.ProfileEntry, err error) {
	err = db.view(ctx, "list profiles of both kinds", func(tx *Tx) error {
		all, err = list(ctx, tx, scanEntry, `
			SELECT name, CASE WHEN script IS NULL THEN 'native' ELSE 'provisioner' END, system, network_template, storage, document, script, image, vcpus, memory, disk_size,
				network, CASE WHEN script IS NULL THEN ready ELSE '' END, follow, protected, hold, revision FROM profile
			ORDER BY name`)
		return err
	})
	return all, err
}

func scanEntry(r row) (e seedbed.ProfileEntry, err error) {
	var system, network, storage, document, script, image, net sql.NullString
	err = r.Scan(&e.Name, &e.Kind, &system, &network, &storage, &document, &script, &image, &e.VCPUs, &e.Memory, &e.DiskSize, &net, &e.Ready, &e.Follow, &e.Protected, &e.Hold, &e.Revision)
	e.System, e.Network, e.Storage, e.Document, e.Script, e.Image = system.String, network.String, storage.String, document.String, script.String, image.String
	e.Net = net.String
	return e, err
}

// Parts returns what a native profile names, as of one moment. ErrInvalid for
// what does not exist.
func (db *DB) Parts(ctx context.Context, names seedbed.PartNames) (parts seedbed.Parts, err error) {
	missing := func(err error, kind, name string) error {
		if err == nil || errors.Is(err, seedbed.ErrNotFound) || unstorable(err) {
			return seedbed.Errorf(seedbed.ErrInvalid, "the %s %q does not exist", kind, clean(name, 80))
		}
		return err
	}
	err = db.view(ctx, "read templates", func(tx *Tx) error {
		parts = seedbed.Parts{}
		if names.System != "" {
			t, err := one(ctx, tx, scanSystem, noObject(kindSystem, names.System), `SELECT `+systemRead+` FROM system_template WHERE name = $1`, names.System)
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
		if names.UserData == "" {
			return nil
		}
		d, err := one(ctx, tx, scanDocument, noObject(kindUserData, names.UserData),
			`SELECT id, name, content, revision, created, changed FROM userdata WHERE name = $1`, names.UserData)
		if err != nil {
			return missing(err, kindUserData, names.UserData)
		}
		doc := d.userData()
		parts.UserData = &doc
		return nil
	})
	return parts, err
}
