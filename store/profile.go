package store

import (
	"context"
	"database/sql"
	"fmt"

	"seedbed"
)

// profileColumns lists a profile's columns: first those that never change, and then profileChanges.
const profileColumns = `id, ` + newProfileColumns

const newProfileColumns = `name, created, ` + profileChanges

const profileChanges = `revision, changed, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, vendor_data, vendor_in_user, datasource, metadata, tags, params, expressions, system, network_template, storage, document, follow, protected, hold, on_failure, script, arguments, ova`

func scanProfile(r Row) (p seedbed.Profile, err error) {
	var image, network, system, nics, storage, document, script, ova sql.NullString
	err = r.Scan(&p.ID, &p.Name, toTime(&p.Created), &p.Revision, toTime(&p.Changed), &image, &p.VCPUs, &p.Memory, &p.DiskSize, &network, toJSON(&p.SSHKeys), toBlob(&p.UserData),
		&p.Ready, toBlob(&p.VendorData), &p.VendorDataInUserData, &p.Datasource, toJSON(&p.Metadata), toJSON(&p.Tags),
		toJSON(&p.Params), toJSON(&p.Expressions), &system, &nics, &storage, &document, &p.Follow, &p.Protected, &p.Hold, toText(&p.OnFailure), &script, toJSON(&p.Arguments), &ova)
	p.Image, p.Network = image.String, network.String
	p.System, p.NetworkTemplate, p.Storage, p.Document = system.String, nics.String, storage.String, document.String
	p.Script, p.OVA = script.String, ova.String
	if len(p.Expressions) == 0 {
		p.Expressions = nil
	}
	if len(p.Arguments) == 0 {
		p.Arguments = nil
	}
	return p, err
}

// profileValues returns the values of profileChanges.
func profileValues(p seedbed.Profile) []any {
	return []any{p.Revision, micros(p.Changed), null(p.Image), p.VCPUs, p.Memory, p.DiskSize, null(p.Network), asJSON(p.SSHKeys), blob(p.UserData), p.Ready,
		blob(p.VendorData), flag(p.VendorDataInUserData), p.Datasource, asJSON(p.Metadata), asJSON(p.Tags),
		asJSON(p.Params), asJSON(orEmptyMap(p.Expressions)), null(p.System), null(p.NetworkTemplate), null(p.Storage), null(p.Document), p.Follow, flag(p.Protected), flag(p.Hold), p.OnFailure.String(),
		null(p.Script), asJSON(orEmpty(p.Arguments)), null(p.OVA)}
}

// CreateProfile adds a profile and returns it with its revision and times. It returns ErrInvalid if
// something that the profile refers to does not exist (an image may still be importing), and
// ErrExists if the name is taken.
func (db *DB) CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	if err := checkProfile(&p); err != nil {
		return seedbed.Profile{}, err
	}
	p.SSHKeys, p.Tags = orEmpty(p.SSHKeys), orEmptyMap(p.Tags)
	p.Revision, p.Created = 1, now()
	p.Changed = p.Created
	err := db.update(ctx, "create profile "+p.Name, func(tx *Tx) error {
		if err := profileNames(ctx, tx, p); err != nil {
			return err
		}
		var err error
		p.ID, err = insertProfile(ctx, tx, p)
		return err
	})
	if err != nil {
		return seedbed.Profile{}, err
	}
	return p, nil
}

// insertProfile inserts the row of a profile and returns its number.
func insertProfile(ctx context.Context, tx *Tx, p seedbed.Profile) (int64, error) {
	exists := seedbed.Errorf(seedbed.ErrExists, "the profile %q already exists", p.Name)
	args := append([]any{p.Name, micros(p.Created)}, profileValues(p)...)
	return one(ctx, tx, value[int64], exists, insertRows(`profile (`+newProfileColumns+`)`, 1, len(args))+` ON CONFLICT (name) DO NOTHING RETURNING id`, args...)
}

// changeProfile writes the columns that a change of a profile sets.
func changeProfile(ctx context.Context, tx *Tx, p seedbed.Profile) error {
	values := profileValues(p)
	return exec(ctx, tx, assignments(`profile`, profileChanges)+fmt.Sprintf(` WHERE name = $%d`, len(values)+1), append(values, p.Name)...)
}

// ChangeProfile changes a profile by calling change, possibly more than once. change may set
// anything except the name and the OVA image. Instances that were made from the profile do not
// change, except the user-data of those that follow it. ChangeProfile returns ErrNotFound,
// ErrInvalid, ErrConflict for a different OVA image, or the error of change.
func (db *DB) ChangeProfile(ctx context.Context, name string, change func(*seedbed.Profile) error) (p seedbed.Profile, err error) {
	err = db.update(ctx, "change profile "+clean(name, 80), func(tx *Tx) error {
		n, err := affect(ctx, tx, `UPDATE profile SET revision = revision WHERE name = $1`, name)
		if err != nil && unstorable(err) || err == nil && n == 0 {
			return noProfile(name)
		}
		if err != nil {
			return err
		}
		if p, err = one(ctx, tx, scanProfile, noProfile(name), `SELECT `+profileColumns+` FROM profile WHERE name = $1`, name); err != nil {
			return err
		}
		was := p
		if err := change(&p); err != nil {
			return err
		}
		p.ID, p.Name, p.Created, p.Revision, p.Changed = was.ID, was.Name, was.Created, was.Revision+1, now()
		if p.OVA != was.OVA {
			return seedbed.Errorf(seedbed.ErrConflict, "profile %q is of another OVA image, which does not change: remove it, or rename one of them", name)
		}
		if err := checkProfile(&p); err != nil {
			return err
		}
		p.SSHKeys, p.Tags = orEmpty(p.SSHKeys), orEmptyMap(p.Tags)
		if err := profileNames(ctx, tx, p); err != nil {
			return err
		}
		return changeProfile(ctx, tx, p)
	})
	if err != nil {
		return seedbed.Profile{}, err
	}
	db.revised.Wake()
	return p, nil
}

// Profile returns the profile called name.
func (db *DB) Profile(ctx context.Context, name string) (seedbed.Profile, error) {
	return cached(ctx, db, "profile", name, func() (p seedbed.Profile, err error) {
		err = db.view(ctx, "read profile", func(tx *Tx) error {
			p, err = one(ctx, tx, scanProfile, noProfile(name), `SELECT `+profileColumns+` FROM profile WHERE name = $1`, name)
			return err
		})
		return p, err
	})
}

func noProfile(name string) error {
	return noObject(kindProfile, name)
}

// Profiles returns all profiles sorted by name.
func (db *DB) Profiles(ctx context.Context) (all []seedbed.Profile, err error) {
	err = db.view(ctx, "list profiles", func(tx *Tx) error {
		all, err = list(ctx, tx, scanProfile, `SELECT `+profileColumns+` FROM profile ORDER BY name`)
		return err
	})
	return all, err
}

// ScriptedProfiles returns the profiles with a script whose names match, sorted by name.
func (db *DB) ScriptedProfiles(ctx context.Context, m seedbed.NameMatch) (all []seedbed.Profile, err error) {
	err = db.view(ctx, "list profiles with a script", func(tx *Tx) error {
		all, err = matched(ctx, tx, scanProfile, m, "name", `SELECT `+profileColumns+` FROM profile WHERE %s AND script IS NOT NULL ORDER BY name`)
		return err
	})
	return all, err
}

// ProfileNames returns the first names of profiles in their order, at most limit.
func (db *DB) ProfileNames(ctx context.Context, limit int) (names []string, err error) {
	err = db.view(ctx, "list the names of profiles", func(tx *Tx) error {
		names, err = list(ctx, tx, value[string], `SELECT name FROM profile ORDER BY name LIMIT $1`, limit)
		return err
	})
	return names, err
}

// ProfilesWith returns the profiles that refer to a user-data document, sorted by name.
func (db *DB) ProfilesWith(ctx context.Context, document string) (all []seedbed.Profile, err error) {
	err = db.view(ctx, "list the profiles of a document", func(tx *Tx) error {
		all, err = matched(ctx, tx, scanProfile, seedbed.ExactName(document), "document", `SELECT `+profileColumns+` FROM profile WHERE %s ORDER BY name`)
		return err
	})
	return all, err
}

// DeleteProfile removes a profile. Instances that were made from it do not change. If a hook refers
// to the profile, DeleteProfile returns ErrInUse.
func (db *DB) DeleteProfile(ctx context.Context, name string) error {
	return db.update(ctx, "delete profile", func(tx *Tx) error {
		err := unhooked(ctx, tx, name)
		if err != nil && unstorable(err) {
			return noProfile(name)
		}
		if err != nil {
			return err
		}
		n, err := affect(ctx, tx, `DELETE FROM profile WHERE name = $1`, name)
		if err == nil && n == 0 {
			err = noProfile(name)
		}
		return err
	})
}
