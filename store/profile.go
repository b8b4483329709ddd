package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"seedbed"
)

const profileColumns = `name, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, vendor_data, vendor_in_user, datasource, metadata, tags, revision, created, changed`

func scanProfile(r row) (p seedbed.Profile, err error) {
	err = r.Scan(&p.Name, &p.Image, &p.VCPUs, &p.Memory, &p.DiskSize, &p.Network, toJSON{&p.SSHKeys}, toBlob{&p.UserData},
		&p.Ready, toBlob{&p.VendorData}, &p.VendorDataInUserData, &p.Datasource, toJSON{&p.Metadata}, toJSON{&p.Tags}, &p.Revision, toTime{&p.Created}, toTime{&p.Changed})
	return p, err
}

// CreateProfile adds a profile and returns it with its revision and times. Its
// image, which may still be importing, and its network must exist: else ErrInvalid.
func (db *DB) CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	if err := checkProfile(&p); err != nil {
		return seedbed.Profile{}, err
	}
	p.SSHKeys, p.Tags = orEmpty(p.SSHKeys), orEmptyMap(p.Tags)
	p.Revision, p.Created = 1, now()
	p.Changed = p.Created
	err := db.update(ctx, "create profile "+p.Name, func(tx *sql.Tx) error {
		if _, err := image(ctx, tx, p.Image, seedbed.ErrInvalid); err != nil {
			return within(fmt.Sprintf("profile %q", p.Name), err)
		}
		_, err := one(ctx, tx, value[int], seedbed.Errorf(seedbed.ErrInvalid, "profile %q: network %q does not exist", p.Name, clean(p.Network, 80)),
			`SELECT 1 FROM network WHERE name = $1`, p.Network)
		if err != nil {
			return err
		}
		made, err := affect(ctx, tx, `INSERT INTO profile (`+profileColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT DO NOTHING`,
			p.Name, p.Image, p.VCPUs, p.Memory, p.DiskSize, p.Network, asJSON{p.SSHKeys}, blob(p.UserData), p.Ready,
			blob(p.VendorData), flag(p.VendorDataInUserData), p.Datasource, asJSON{p.Metadata}, asJSON{p.Tags}, p.Revision, micros(p.Created), micros(p.Changed))
		if err == nil && made == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "profile %q exists already", p.Name)
		}
		return err
	})
	if err != nil {
		return seedbed.Profile{}, err
	}
	return p, nil
}

func checkProfile(p *seedbed.Profile) (err error) {
	if err := seedbed.CheckName("profile", p.Name); err != nil {
		return err
	}
	if p.Ready, err = seedbed.ParseReady(string(p.Ready)); err != nil {
		return within(fmt.Sprintf("profile %q", p.Name), err)
	}
	switch {
	case p.VCPUs < 1:
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: vcpus is %d: want 1 or more", p.Name, p.VCPUs)
	case p.Memory < 1:
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: memory is %s: want a size such as 512MiB", p.Name, p.Memory)
	case p.DiskSize < 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: disk size is %s: want a size such as 10GiB, or 0 for the image's own", p.Name, p.DiskSize)
	}
	if p.Datasource, err = seedbed.ParseDatasource(string(p.Datasource)); err != nil {
		return within(fmt.Sprintf("profile %q", p.Name), err)
	}
	err = cmp.Or(seedbed.CheckDocument("user-data", p.UserData), seedbed.CheckDocument("vendor-data", p.VendorData), p.Metadata.Check(), seedbed.CheckTags(p.Tags))
	if err != nil {
		return within(fmt.Sprintf("profile %q", p.Name), err)
	}
	return nil
}

// within puts the place before an error's text and keeps its kind.
func within(place string, err error) error { return fmt.Errorf("%s: %w", place, err) }

// Profile returns the profile called name.
func (db *DB) Profile(ctx context.Context, name string) (seedbed.Profile, error) {
	return memoized(db, memoKey{"profile", name}, func() (p seedbed.Profile, err error) {
		err = db.view(ctx, "read profile", func(tx *sql.Tx) error {
			p, err = one(ctx, tx, scanProfile, noProfile(name), `SELECT `+profileColumns+` FROM profile WHERE name = $1`, name)
			return err
		})
		return p, err
	})
}

func noProfile(name string) error {
	return seedbed.Errorf(seedbed.ErrNotFound, "profile %q does not exist", clean(name, 80))
}

// Profiles returns all profiles by name.
func (db *DB) Profiles(ctx context.Context) (all []seedbed.Profile, err error) {
	err = db.view(ctx, "list profiles", func(tx *sql.Tx) error {
		all, err = list(ctx, tx, scanProfile, `SELECT `+profileColumns+` FROM profile ORDER BY name`)
		return err
	})
	return all, err
}

// DeleteProfile removes a profile. Instances that were made from it stay as
// they are; a hook that names it is ErrInUse.
func (db *DB) DeleteProfile(ctx context.Context, name string) error {
	return db.update(ctx, "delete profile", func(tx *sql.Tx) error {
		user, err := one(ctx, tx, value[string], nil, `SELECT hook FROM hook_profile WHERE profile = $1 ORDER BY hook LIMIT 1`, name)
		if err != nil {
			return err
		}
		if user != "" {
			return seedbed.Errorf(seedbed.ErrInUse, "hook %q uses profile %q: delete the hook first", user, name)
		}
		n, err := affect(ctx, tx, `DELETE FROM profile WHERE name = $1`, name)
		if err == nil && n == 0 {
			err = noProfile(name)
		}
		return err
	})
}
