package catalogue

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"seedbed"
	"seedbed/store/sqldb"
)

// ProfileColumns lists a profile's columns: first those that never change, and then profileChanges.
const ProfileColumns = `id, ` + newProfileColumns

const newProfileColumns = `name, created, ` + profileChanges

const profileChanges = `revision, changed, image, vcpus, memory, disk_size, network, ssh_keys, user_data, ready, ` +
	`vendor_data, vendor_in_user, datasource, metadata, tags, params, expressions, ` +
	`system, network_template, storage, document, follow, protected, hold, on_failure, script, arguments, ova, security_groups, ` +
	`bandwidth_in, bandwidth_out, nics, boot_from, placement_group`

// ScanProfile reads a profile from a row of ProfileColumns.
func ScanProfile(r sqldb.Row) (p seedbed.Profile, err error) {
	var image, network, system, nics, storage, document, script, ova sql.NullString
	err = r.Scan(&p.ID, &p.Name, sqldb.ToTime(&p.Created), &p.Revision, sqldb.ToTime(&p.Changed), &image,
		&p.VCPUs, &p.Memory, &p.DiskSize, &network, sqldb.ToJSON(&p.SSHKeys), sqldb.ToBlob(&p.UserData),
		&p.Ready, sqldb.ToBlob(&p.VendorData), &p.VendorDataInUserData, &p.Datasource, sqldb.ToJSON(&p.Metadata), sqldb.ToJSON(&p.Tags),
		sqldb.ToJSON(&p.Params), sqldb.ToJSON(&p.Expressions), &system, &nics, &storage, &document, &p.Follow,
		&p.Protected, &p.Hold, sqldb.ToText(&p.OnFailure), &script, sqldb.ToJSON(&p.Arguments), &ova, sqldb.ToJSON(&p.SecurityGroups),
		&p.BandwidthIn, &p.BandwidthOut, sqldb.ToJSON(&p.NICs), &p.BootFrom, &p.PlacementGroup)
	p.Image, p.Network = image.String, network.String
	p.System, p.NetworkTemplate, p.Storage, p.Document = system.String, nics.String, storage.String, document.String
	p.Script, p.OVA = script.String, ova.String
	if len(p.Expressions) == 0 {
		p.Expressions = nil
	}
	if len(p.Arguments) == 0 {
		p.Arguments = nil
	}
	if len(p.SecurityGroups) == 0 {
		p.SecurityGroups = nil
	}
	if len(p.NICs) == 0 {
		p.NICs = nil
	}
	return p.Explicit(), err
}

// profileValues returns the values of profileChanges.
func profileValues(p seedbed.Profile) []any {
	return []any{p.Revision, sqldb.Micros(p.Changed), sqldb.Null(p.Image), p.VCPUs, p.Memory,
		p.DiskSize, sqldb.Null(p.Network), sqldb.AsJSON(p.SSHKeys), sqldb.Blob(p.UserData), p.Ready,
		sqldb.Blob(p.VendorData), sqldb.Flag(p.VendorDataInUserData), p.Datasource, sqldb.AsJSON(p.Metadata), sqldb.AsJSON(p.Tags),
		sqldb.AsJSON(p.Params), sqldb.AsJSON(sqldb.OrEmptyMap(p.Expressions)), sqldb.Null(p.System), sqldb.Null(p.NetworkTemplate),
		sqldb.Null(p.Storage), sqldb.Null(p.Document), p.Follow, sqldb.Flag(p.Protected), sqldb.Flag(p.Hold), p.OnFailure.String(),
		sqldb.Null(p.Script), sqldb.AsJSON(sqldb.OrEmpty(p.Arguments)), sqldb.Null(p.OVA),
		sqldb.AsJSON(sqldb.OrEmpty(p.SecurityGroups)), p.BandwidthIn, p.BandwidthOut, sqldb.AsJSON(sqldb.OrEmpty(p.NICs)), p.BootFrom,
		p.PlacementGroup}
}

// CreateProfile adds a profile, a draft, and returns it with its revision and times. It returns ErrInvalid if
// something that the profile refers to does not exist (an image may still be importing), and
// ErrExists if the name is taken.
func (s *Store) CreateProfile(ctx context.Context, p seedbed.Profile) (seedbed.Profile, error) {
	if err := checkProfile(&p); err != nil {
		return seedbed.Profile{}, err
	}
	p.SSHKeys, p.Tags = sqldb.OrEmpty(p.SSHKeys), sqldb.OrEmptyMap(p.Tags)
	p.Revision, p.Created = 1, sqldb.Now()
	p.Changed = p.Created
	asked := p
	err := s.db.Update(ctx, "create profile "+p.Name, func(tx *sqldb.Tx) error {
		p = asked // with names as the request has them
		if err := holdProject(ctx, tx, p.Name); err != nil {
			return err
		}
		if err := profileNames(ctx, tx, &p); err != nil {
			return err
		}
		insertProfile(tx, &p)
		return nil
	})
	if err != nil {
		return seedbed.Profile{}, err
	}
	p.Published = Shown(seedbed.Publication{})
	return p.Explicit(), nil
}

// insertProfile defers the insertion of a profile, and sets its number.
func insertProfile(tx *sqldb.Tx, p *seedbed.Profile) {
	insertNumbered(tx, kindProfile, `profile (`+newProfileColumns+`)`, p.Name,
		append([]any{p.Name, sqldb.Micros(p.Created)}, profileValues(*p)...), &p.ID)
}

// ChangeProfile changes a profile by calling change, possibly more than once. change may set
// anything except the name and the OVA image. Instances that were made from the profile do not
// change, except the user-data of those that follow it. ChangeProfile returns ErrNotFound,
// ErrInvalid, ErrConflict for a different OVA image, or the error of change.
func (s *Store) ChangeProfile(ctx context.Context, name string, change func(*seedbed.Profile) error) (p seedbed.Profile, err error) {
	err = s.locked(ctx, "change", kindProfile, name, func(tx *sqldb.Tx) (err error) {
		if p, err = readProfile(ctx, tx, name); err != nil {
			return err
		}
		was := p
		if err := change(&p); err != nil {
			return err
		}
		p.ID, p.Name, p.Created, p.Revision, p.Changed = was.ID, was.Name, was.Created, was.Revision+1, sqldb.Now()
		p.Published = was.Published
		if p.OVA != was.OVA {
			return seedbed.Errorf(seedbed.ErrConflict,
				"profile %q is of another OVA image, which does not change: remove it, or rename one of them", name)
		}
		if err := checkProfile(&p); err != nil {
			return err
		}
		p.SSHKeys, p.Tags = sqldb.OrEmpty(p.SSHKeys), sqldb.OrEmptyMap(p.Tags)
		if err := profileNames(ctx, tx, &p); err != nil {
			return err
		}
		return update(ctx, tx, "profile", profileChanges, p.ID, profileValues(p))
	})
	if err != nil {
		return seedbed.Profile{}, err
	}
	s.revised.Wake()
	return p.Explicit(), nil
}

// PublishProfile says to which other projects a profile is published, and returns the profile. It returns
// ErrNotFound, ErrInvalid for a publication that it cannot have, or the error of a check that the profile as
// it was does not pass.
func (s *Store) PublishProfile(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.Profile) error,
) (seedbed.Profile, error) {
	return publish(ctx, s, seedbed.PublishedProfile, name, to, readProfile, checks)
}

// Profile returns the profile called name.
func (s *Store) Profile(ctx context.Context, name string) (seedbed.Profile, error) {
	return sqldb.CachedIn(s.db, "profile", name, func() (p seedbed.Profile, err error) {
		err = s.db.View(ctx, "read profile", func(tx *sqldb.Tx) error {
			p, err = readProfile(ctx, tx, name)
			return err
		})
		return p, err
	})
}

// readProfile reads the profile of that name, with its publication.
func readProfile(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.Profile, error) {
	p, err := sqldb.One(ctx, tx, ScanProfile, noProfile(name), `SELECT `+ProfileColumns+` FROM profile WHERE name = $1`, name)
	if err != nil {
		return p, err
	}
	to, err := ReadPublication(ctx, tx, seedbed.PublishedProfile, name)
	p.Published = Shown(to)
	return p, err
}

func noProfile(name string) error {
	return noObject(kindProfile, name)
}

// matchedProfiles reads the profiles of which a column matches, sorted by name. and is a further condition.
func matchedProfiles(ctx context.Context, tx *sqldb.Tx, m seedbed.NameMatch, column, and string) ([]seedbed.Profile, error) {
	all, err := matched(ctx, tx, ScanProfile, m, column, `SELECT `+ProfileColumns+` FROM profile WHERE %s`+and+` ORDER BY name`)
	if err != nil {
		return nil, err
	}
	return all, publications(ctx, tx, all)
}

// publications sets to which projects some profiles are published.
func publications(ctx context.Context, tx *sqldb.Tx, all []seedbed.Profile) error {
	to, err := ReadPublications(ctx, tx, seedbed.PublishedProfile)
	for n := range all {
		all[n].Published = Shown(to[all[n].Name])
	}
	return err
}

// profiles returns the profiles whose names match, sorted by name.
func (s *Store) profiles(ctx context.Context, m seedbed.NameMatch) (all []seedbed.Profile, err error) {
	err = s.db.View(ctx, "list profiles", func(tx *sqldb.Tx) error {
		all, err = matchedProfiles(ctx, tx, m, "name", "")
		return err
	})
	return all, err
}

// ScriptedProfiles returns the profiles with a script whose names match, sorted by name.
func (s *Store) ScriptedProfiles(ctx context.Context, m seedbed.NameMatch) (all []seedbed.Profile, err error) {
	err = s.db.View(ctx, "list profiles with a script", func(tx *sqldb.Tx) error {
		all, err = matchedProfiles(ctx, tx, m, "name", " AND script IS NOT NULL")
		return err
	})
	return all, err
}

// ProfileNames returns the first names of the profiles that a project may use in their order, at most limit.
func (s *Store) ProfileNames(ctx context.Context, project string, limit int) (names []string, err error) {
	err = s.db.View(ctx, "list the names of profiles", func(tx *sqldb.Tx) error {
		w := usableIn(seedbed.InProject(project), seedbed.PublishedProfile)
		names, err = sqldb.List(ctx, tx, sqldb.Value[string],
			`SELECT name FROM profile WHERE `+w.String()+fmt.Sprintf(` ORDER BY name LIMIT $%d`, len(w.Args)+1), append(w.Args, limit)...)
		return err
	})
	return names, err
}

// ProfilesWith returns the profiles that refer to a user-data document, sorted by name.
func (s *Store) ProfilesWith(ctx context.Context, document string) (all []seedbed.Profile, err error) {
	err = s.db.View(ctx, "list the profiles of a document", func(tx *sqldb.Tx) error {
		all, err = matchedProfiles(ctx, tx, seedbed.ExactName(document), "document", "")
		return err
	})
	return all, err
}

// DeleteProfile removes a profile. Instances that were made from it do not change. If a hook refers
// to the profile, DeleteProfile returns ErrInUse. If the profile does not pass a check, it returns
// the error of that.
func (s *Store) DeleteProfile(ctx context.Context, name string, checks ...func(seedbed.Profile) error) error {
	return s.locked(ctx, "delete", kindProfile, name, func(tx *sqldb.Tx) error {
		if err := pass(ctx, tx, name, readProfile, checks); err != nil {
			return err
		}
		users, err := sqldb.List(ctx, tx, sqldb.Value[string], `SELECT hook FROM hook_profile WHERE profile = $1 ORDER BY hook`, name)
		if err != nil {
			return err
		}
		if err := inUse(ctx, kindProfile, name, "by hook", users); err != nil {
			return err
		}
		if err := Withdraw(ctx, tx, seedbed.PublishedProfile, name); err != nil {
			return err
		}
		return sqldb.Exec(ctx, tx, `DELETE FROM profile WHERE name = $1`, name)
	})
}

// ListProfiles returns the profiles of a query, sorted by name: those that a project may use, or those of all
// projects.
func (s *Store) ListProfiles(ctx context.Context, q seedbed.ProfileQuery) (all []seedbed.Profile, err error) {
	err = s.db.View(ctx, "list profiles", func(tx *sqldb.Tx) error {
		w := usableIn(q.Scope, seedbed.PublishedProfile)
		if q.Prefix != "" {
			project, _ := q.Scope.One()
			own := seedbed.Qualified(cmp.Or(project, seedbed.DefaultProject), q.Prefix)
			w.And("(name >= %s AND name < %s OR name >= %s AND name < %s)", q.Prefix, q.Prefix+"\x7f", own, own+"\x7f") // names are ASCII
		}
		if q.After != "" {
			w.And("name > %s", q.After)
		}
		query := `SELECT ` + ProfileColumns + ` FROM profile WHERE ` + w.String() + fmt.Sprintf(` ORDER BY name LIMIT $%d`, len(w.Args)+1)
		all, err = sqldb.List(ctx, tx, ScanProfile, query, append(w.Args, sqldb.UpTo(q.Limit))...)
		if err != nil {
			return err
		}
		return publications(ctx, tx, all)
	})
	return all, err
}
