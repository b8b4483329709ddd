package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"seedbed"
)

// composedOf is a profile with a script in the form of PVC's.
func composedOf(p seedbed.Profile) seedbed.ProvisionerProfile {
	made := seedbed.ProvisionerProfile{
		Stored: seedbed.Stored{ID: p.ID, Revision: p.Revision, Created: p.Created, Changed: p.Changed}, Name: p.Name, Type: seedbed.ProfileProvisioner,
		System: p.System, Network: p.NetworkTemplate, Storage: p.Storage, UserData: p.Document, Script: p.Script, OVA: p.OVA, Arguments: orEmpty(p.Arguments),
		Params: p.Params, Follow: p.Follow, Protected: p.Protected, Hold: p.Hold,
	}
	if p.OVA != "" {
		made.Type = seedbed.ProfileOVA
	}
	return made
}

// profileOf is the profile that p describes. PVC's guests find their UUID, and an
// empty document where there is none; a job ends once the domain is started.
func profileOf(p seedbed.ProvisionerProfile) seedbed.Profile {
	return seedbed.Profile{
		ID: p.ID, Name: p.Name, Revision: p.Revision, Created: p.Created, Changed: p.Changed, SSHKeys: []string{}, UserData: []byte{}, Tags: map[string]string{},
		Datasource: seedbed.DatasourceEC2, Metadata: seedbed.MetadataOptions{InstanceID: seedbed.InstanceIDUUID}, Ready: seedbed.ReadyStarted,
		System: p.System, NetworkTemplate: p.Network, Storage: p.Storage, Document: p.UserData, Script: p.Script, OVA: p.OVA, Arguments: p.Arguments,
		Params: p.Params, Follow: p.Follow, Protected: p.Protected, Hold: p.Hold,
	}
}

func scanProvisioner(r row) (seedbed.ProvisionerProfile, error) {
	p, err := scanProfile(r)
	return composedOf(p), err
}

const (
	maxArguments = 100
	maxArgument  = 4096
)

// checkProvisioner refuses, with ErrInvalid, a profile that cannot be, and one
// that names what does not exist.
func checkProvisioner(ctx context.Context, tx *Tx, p seedbed.ProvisionerProfile) error {
	switch {
	case p.Type == seedbed.ProfileOVA && p.OVA == "":
		return seedbed.Errorf(seedbed.ErrInvalid, "an OVA image must be specified for profile %q, since it is of type ova", p.Name)
	case p.Type == seedbed.ProfileProvisioner && p.OVA != "":
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q is of type provisioner and can have no OVA image", p.Name)
	case p.Type != seedbed.ProfileProvisioner && p.Type != seedbed.ProfileOVA:
		return seedbed.Errorf(seedbed.ErrInvalid, "a valid profile type (provisioner, ova) must be specified")
	case p.Follow != seedbed.FollowLive && p.Follow != seedbed.FollowPinned:
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: userdata %q is unknown: want live or pinned", p.Name, clean(string(p.Follow), 80))
	case len(p.Arguments) > maxArguments:
		return seedbed.Errorf(seedbed.ErrInvalid, "there are %d script arguments: want at most %d", len(p.Arguments), maxArguments)
	}
	if err := seedbed.CheckParams(p.Params); err != nil {
		return within(fmt.Sprintf("profile %q", p.Name), err)
	}
	for _, a := range p.Arguments {
		if err := plainText("a script argument", a, maxArgument); err != nil {
			return err
		}
		if key, _, ok := strings.Cut(a, "="); !ok || key == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "the script argument %q is not usable: want key=value", clean(a, 80))
		}
	}
	for _, ref := range []struct {
		kind, table, name string
		optional          bool
	}{
		{kindSystem, "system_template", p.System, false},
		{kindNetwork, "network_template", p.Network, p.Type == seedbed.ProfileOVA},
		{kindStorage, "storage_template", p.Storage, p.Type == seedbed.ProfileOVA},
		{kindUserData, "userdata", p.UserData, true},
		{kindScript, "script", p.Script, false},
		{kindOVA, "ova", p.OVA, true},
	} {
		if ref.name == "" && ref.optional {
			continue
		}
		if ref.name == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "a %s must be specified for profile %q", ref.kind, p.Name)
		}
		_, err := one(ctx, tx, value[int], seedbed.Errorf(seedbed.ErrInvalid, "the %s %q for profile %q does not exist", ref.kind, clean(ref.name, 80), p.Name),
			`SELECT 1 FROM `+ref.table+` WHERE name = $1`, ref.name)
		if err != nil {
			return err
		}
	}
	return nil
}

// CreateProvisionerProfile adds a profile, and returns it as it is kept. What it
// names must exist: else ErrInvalid.
func (db *DB) CreateProvisionerProfile(ctx context.Context, p seedbed.ProvisionerProfile) (seedbed.ProvisionerProfile, error) {
	if err := seedbed.CheckName(kindProfile, p.Name); err != nil {
		return seedbed.ProvisionerProfile{}, err
	}
	p.Arguments, p.Stored = orEmpty(p.Arguments), newStored()
	p.Follow = cmp.Or(p.Follow, seedbed.FollowLive) // as PVC's manual has it
	err := db.update(ctx, "create provisioner profile "+p.Name, func(tx *Tx) (err error) {
		p.ID, err = insertProvisioner(ctx, tx, p)
		return err
	})
	if err != nil {
		return seedbed.ProvisionerProfile{}, err
	}
	return p, nil
}

// insertProvisioner adds a profile, and gives its number.
func insertProvisioner(ctx context.Context, tx *Tx, p seedbed.ProvisionerProfile) (int64, error) {
	p.Follow = cmp.Or(p.Follow, seedbed.FollowLive) // as PVC's manual has it
	if err := checkProvisioner(ctx, tx, p); err != nil {
		return 0, err
	}
	if err := freeProfileName(ctx, tx, p.Name, seedbed.KindProvisioner); err != nil {
		return 0, err
	}
	return insertProfile(ctx, tx, profileOf(p), objectExists(kindProfile, p.Name))
}

// ProvisionerProfiles returns the profiles whose names match, by name.
func (db *DB) ProvisionerProfiles(ctx context.Context, m seedbed.NameMatch) (all []seedbed.ProvisionerProfile, err error) {
	err = db.view(ctx, "list provisioner profiles", func(tx *Tx) error {
		all, err = matched(ctx, tx, scanProvisioner, m, "name", `SELECT `+profileColumns+` FROM profile WHERE %s AND script IS NOT NULL ORDER BY name`)
		return err
	})
	return all, err
}

// ChangeProvisionerProfile changes anything but the name and the type of a
// profile in change, which may be called more than once. Machines that were made
// from it stay as they are, but for user-data that follows. Errors: ErrNotFound, ErrInvalid.
func (db *DB) ChangeProvisionerProfile(ctx context.Context, name string, change func(*seedbed.ProvisionerProfile)) (p seedbed.ProvisionerProfile, err error) {
	err = db.update(ctx, "change provisioner profile "+clean(name, 80), func(tx *Tx) error {
		if err := exec(ctx, tx, `UPDATE profile SET revision = revision WHERE name = $1`, name); err != nil && !unstorable(err) {
			return err
		}
		p, err = one(ctx, tx, scanProvisioner, noObject(kindProfile, name), `SELECT `+profileColumns+` FROM profile WHERE name = $1 AND script IS NOT NULL`, name)
		if err != nil {
			return err
		}
		kept := p
		change(&p)
		p.Name, p.Type, p.OVA, p.Stored = kept.Name, kept.Type, kept.OVA, kept.Stored
		p.Revision, p.Changed = kept.Revision+1, now()
		if err := checkProvisioner(ctx, tx, p); err != nil {
			return err
		}
		return changeProfile(ctx, tx, profileOf(p))
	})
	if err == nil {
		db.revised.ring()
	}
	return p, err
}

// DeleteProvisionerProfile removes a profile. Machines that were made from it stay as they are.
func (db *DB) DeleteProvisionerProfile(ctx context.Context, name string) error {
	return db.update(ctx, "delete provisioner profile "+clean(name, 80), func(tx *Tx) error {
		err := unhooked(ctx, tx, name)
		if err != nil && unstorable(err) {
			return noObject(kindProfile, name)
		}
		if err != nil {
			return err
		}
		n, err := affect(ctx, tx, `DELETE FROM profile WHERE name = $1 AND script IS NOT NULL`, name)
		if err == nil && n == 0 || err != nil && unstorable(err) {
			err = noObject(kindProfile, name)
		}
		return err
	})
}

// Composition returns a profile with all that it names, as of one moment.
func (db *DB) Composition(ctx context.Context, profile string) (c seedbed.Composition, err error) {
	err = db.view(ctx, "read provisioner profile", func(tx *Tx) error {
		c = seedbed.Composition{}
		p := &c.Profile
		*p, err = one(ctx, tx, scanProvisioner, noObject(kindProfile, profile), `SELECT `+profileColumns+` FROM profile WHERE name = $1 AND script IS NOT NULL`, profile)
		if err != nil {
			return err
		}
		c.System, err = one(ctx, tx, scanSystem, noObject(kindSystem, p.System), `SELECT `+systemRead+` FROM system_template WHERE name = $1`, p.System)
		if err != nil {
			return err
		}
		if err := composedTemplates(ctx, tx, &c); err != nil {
			return err
		}
		c.Script, err = one(ctx, tx, scanScript, noObject(kindScript, p.Script), `SELECT `+scriptColumns+` FROM script WHERE name = $1`, p.Script)
		if err != nil {
			return err
		}
		if p.UserData == "" {
			return nil
		}
		d, err := one(ctx, tx, scanDocument, noObject(kindUserData, p.UserData), `SELECT id, name, content, revision, created, changed FROM userdata WHERE name = $1`, p.UserData)
		doc := d.userData()
		c.UserData = &doc
		return err
	})
	return c, err
}

// composedTemplates reads the NICs and disks of a composition, of which an OVA's profile names some at most.
func composedTemplates(ctx context.Context, tx *Tx, c *seedbed.Composition) error {
	p := c.Profile
	if p.Network != "" {
		networks, err := networkTemplates(ctx, tx, seedbed.ExactName(p.Network))
		if err != nil || len(networks) != 1 {
			return orNoObject(err, kindNetwork, p.Network)
		}
		c.Network = networks[0]
	}
	if p.Storage != "" {
		storages, err := storageTemplates(ctx, tx, seedbed.ExactName(p.Storage))
		if err != nil || len(storages) != 1 {
			return orNoObject(err, kindStorage, p.Storage)
		}
		c.Storage = storages[0]
	}
	if p.OVA == "" {
		return nil
	}
	ova, err := one(ctx, tx, scanOVA, noOVA(p.OVA), `SELECT `+ovaColumns+` FROM ova WHERE name = $1`, p.OVA)
	if err != nil {
		return err
	}
	c.OVA = &ova
	c.OVA.Volumes, err = ovaVolumes(ctx, tx, p.OVA)
	return err
}

func orNoObject(err error, kind, name string) error {
	if err != nil {
		return err
	}
	return noObject(kind, name)
}
