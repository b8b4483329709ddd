package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"seedbed"
	"seedbed/store/sqldb"
)

const (
	maxExpressionText = 4096 // in bytes, of a field's text with expressions
	maxArguments      = 100
	maxArgument       = 4096 // in bytes
)

func checkProfile(p *seedbed.Profile) (err error) {
	if err := seedbed.CheckQualifiedName("profile", p.Name); err != nil {
		return err
	}
	return cmp.Or(checkProfileFields(p), checkArguments(p), checkProfileServed(p))
}

func checkProfileFields(p *seedbed.Profile) (err error) {
	at := func(err error) error { return sqldb.Within(fmt.Sprintf("profile %q", p.Name), err) }
	if p.Ready, err = seedbed.ParseReady(string(p.Ready)); err != nil {
		return at(err)
	}
	if p.Follow, err = seedbed.ParseFollow(string(p.Follow), seedbed.FollowPinned); err != nil {
		return at(err)
	}
	if err := seedbed.CheckParams(p.Params); err != nil {
		return at(err)
	}
	if err := seedbed.CheckGroupNames(p.SecurityGroups); err != nil {
		return at(err)
	}
	if err := seedbed.CheckBandwidth(p.BandwidthIn, p.BandwidthOut); err != nil {
		return at(err)
	}
	if err := p.CheckNICs(); err != nil {
		return err
	}
	if err := seedbed.CheckBootFrom(p.BootFrom); err != nil {
		return at(err)
	}
	if p.PlacementGroup != "" {
		if err := seedbed.CheckName("placement group", p.PlacementGroup); err != nil {
			return at(err)
		}
	}
	for field, text := range p.Expressions {
		if err := plainText("expression of "+sqldb.Clean(field, 80), text, maxExpressionText); err != nil {
			return at(err)
		}
	}
	// A template or an expression can set what the profile leaves empty.
	open := func(field, template string) bool { return template != "" || p.Expressions[field] != "" }
	switch {
	case p.VCPUs < 0 || p.VCPUs == 0 && !open("vcpus", p.System+p.Expressions["system_template"]):
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: vcpus is %d: expected 1 or more", p.Name, p.VCPUs)
	case p.Memory < 0 || p.Memory == 0 && !open("memory", p.System+p.Expressions["system_template"]):
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: memory is %s: expected a size such as 512MiB", p.Name, p.Memory)
	case p.DiskSize < 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q: disk size is %s: expected a size such as 10GiB, or 0 for the image's own",
			p.Name, p.DiskSize)
	case p.Image == "" && p.OVA == "" && !open("image", p.Storage+p.Expressions["storage_template"]):
		return seedbed.Errorf(seedbed.ErrInvalid,
			"profile %q has neither an image nor a storage template: expected one of them for its disks", p.Name)
	case p.FirstNetwork() == "" && p.OVA == "" && !open("network", p.NetworkTemplate+p.Expressions["network_template"]):
		return seedbed.Errorf(seedbed.ErrInvalid,
			"profile %q has neither a network nor a network template: expected one of them for its NICs", p.Name)
	case seedbed.BootsFrom(p.BootFrom) != "" && p.Script != "":
		return seedbed.Errorf(seedbed.ErrInvalid,
			"profile %q: boot_from is %s, and the script %s makes the domain: expected only one of them", p.Name, p.BootFrom,
			sqldb.Clean(p.Script, 80))
	case (p.Document != "" || p.Expressions["userdata_document"] != "") && len(p.UserData) > 0:
		return seedbed.Errorf(seedbed.ErrInvalid,
			"profile %q has user-data of its own and names a userdata document: expected one of them", p.Name)
	}
	return nil
}

// checkArguments returns ErrInvalid for arguments that a script cannot take or that have no script.
func checkArguments(p *seedbed.Profile) error {
	switch {
	case len(p.Arguments) > maxArguments:
		return seedbed.Errorf(seedbed.ErrInvalid, "there are %d script arguments: expected at most %d", len(p.Arguments), maxArguments)
	case len(p.Arguments) > 0 && p.Script == "":
		return seedbed.Errorf(seedbed.ErrInvalid, "profile %q has script arguments, and no script: expected both, or neither", p.Name)
	}
	for _, a := range p.Arguments {
		if err := plainText("a script argument", a, maxArgument); err != nil {
			return err
		}
		if key, _, ok := strings.Cut(a, "="); !ok || key == "" {
			return seedbed.Errorf(seedbed.ErrInvalid, "the script argument %q is not usable: expected key=value", sqldb.Clean(a, 80))
		}
	}
	return nil
}

func checkProfileServed(p *seedbed.Profile) (err error) {
	at := func(err error) error { return sqldb.Within(fmt.Sprintf("profile %q", p.Name), err) }
	if p.Datasource, err = seedbed.ParseDatasource(string(p.Datasource)); err != nil {
		return at(err)
	}
	err = cmp.Or(seedbed.CheckDocument("user-data", p.UserData),
		seedbed.CheckDocument("vendor-data", p.VendorData), p.Metadata.Check(), seedbed.CheckTags(p.Tags))
	if err != nil {
		return at(err)
	}
	return nil
}

// profileNames replaces the names of what the profile refers to, as its project uses them, by qualified
// names. It returns ErrInvalid if something does not exist, or is not published to the project.
func profileNames(ctx context.Context, tx *sqldb.Tx, p *seedbed.Profile) error {
	place, project := fmt.Sprintf("profile %q", p.Name), seedbed.ProjectOf(p.Name)
	if p.Image != "" {
		image, err := useImage(ctx, tx, project, p.Image)
		if err != nil {
			return sqldb.Within(place, err)
		}
		p.Image = image.Name
	}
	if p.Network != "" {
		network, err := Resolve(ctx, tx, seedbed.PublishedNetwork, project, p.Network)
		if err != nil {
			return orInvalid(err, "%s: network %q does not exist", place, sqldb.Clean(p.Network, 80))
		}
		p.Network = network
	}
	if err := profileNICs(ctx, tx, p); err != nil {
		return sqldb.Within(place, err)
	}
	groups := slices.Clone(p.SecurityGroups)
	for _, n := range p.NICs {
		groups = append(groups, n.Groups...)
	}
	groups = slices.DeleteFunc(groups, func(name string) bool { return name == seedbed.OpenGroup })
	err := sqldb.InOrder(groups, func(name string) error {
		found, err := LockSecurityGroup(ctx, tx, seedbed.Qualified(project, name))
		if err == nil && !found {
			err = seedbed.Errorf(seedbed.ErrInvalid, "%s: security group %q does not exist", place, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.PlacementGroup != "" {
		_, err := LockPlacementGroup(ctx, tx, seedbed.Qualified(project, p.PlacementGroup))
		if err != nil {
			return sqldb.Within(place, err)
		}
	}
	for _, ref := range []struct {
		kind seedbed.PublishedKind
		name *string
	}{
		{seedbed.PublishedSystemTemplate, &p.System},
		{seedbed.PublishedNetworkTemplate, &p.NetworkTemplate},
		{seedbed.PublishedStorageTemplate, &p.Storage},
		{seedbed.PublishedUserData, &p.Document},
		{seedbed.PublishedScript, &p.Script},
		{seedbed.PublishedOVA, &p.OVA},
	} {
		if *ref.name == "" {
			continue
		}
		qualified, err := Resolve(ctx, tx, ref.kind, project, *ref.name)
		if err != nil {
			return noPart(err, ref.kind, *ref.name, p.Name)
		}
		*ref.name = qualified
	}
	return nil
}

// profileNICs replaces the networks of a profile's NICs by their qualified names, and locks them. It returns ErrInvalid for a NIC that its
// network cannot have.
func profileNICs(ctx context.Context, tx *sqldb.Tx, p *seedbed.Profile) error {
	p.NICs = slices.Clone(p.NICs)
	var names []string
	for i := range p.NICs {
		n := &p.NICs[i]
		qualified, err := Resolve(ctx, tx, seedbed.PublishedNetwork, seedbed.ProjectOf(p.Name), n.Network)
		if err != nil {
			return orInvalid(err, "nics: NIC %d: network %q does not exist", i, sqldb.Clean(n.Network, 80))
		}
		n.Network = qualified
		names = append(names, qualified)
	}
	networks := map[string]seedbed.Network{}
	err := sqldb.InOrder(names, func(name string) (err error) {
		networks[name], err = sqldb.LockOne(ctx, tx, scanNetworkKind, seedbed.PublishedNetwork.Missing(seedbed.ErrInvalid, name),
			`UPDATE network SET name = name WHERE name = $1 RETURNING name, kind, prefix, options`, name)
		return err
	})
	if err != nil {
		return err
	}
	for i, n := range p.NICs {
		network := networks[n.Network]
		nic := seedbed.NIC{Index: i, Groups: n.Groups, BandwidthIn: cmp.Or(n.BandwidthIn, p.BandwidthIn),
			BandwidthOut: cmp.Or(n.BandwidthOut, p.BandwidthOut)}
		if len(nic.Groups) == 0 {
			nic.Groups = p.SecurityGroups
		}
		if err := cmp.Or(network.HasFree(i, n), network.Keeps(nic)); err != nil {
			return err
		}
	}
	return nil
}

// scanNetworkKind reads a network, as far as it says what its NICs can have.
func scanNetworkKind(r sqldb.Row) (n seedbed.Network, err error) {
	err = r.Scan(&n.Name, &n.Kind, sqldb.ToText(&n.Prefix), sqldb.ToJSON(&n.NetworkOptions))
	return n, err
}

// LockSecurityGroup reports whether there is a security group of that qualified name, and locks its row, so that it is not
// removed before the transaction ends.
func LockSecurityGroup(ctx context.Context, tx *sqldb.Tx, name string) (bool, error) {
	found, err := sqldb.LockOne(ctx, tx, sqldb.Value[string], nil,
		`UPDATE security_group SET name = name WHERE name = $1 RETURNING name`, name)
	return found != "", err
}

// LockPlacementGroup returns the policy of a placement group, and locks its row, so that it is not removed before the transaction ends, and
// that no other transaction puts an instance into it. It returns ErrInvalid if there is none of that qualified name.
func LockPlacementGroup(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.PlacementPolicy, error) {
	return sqldb.LockOne(ctx, tx, sqldb.Value[seedbed.PlacementPolicy], NoPlacementGroup(seedbed.ErrInvalid, name),
		`UPDATE placement_group SET name = name WHERE name = $1 RETURNING policy`, name)
}

// NoPlacementGroup returns the error for a placement group that does not exist.
func NoPlacementGroup(kind error, name string) error {
	return seedbed.Errorf(kind, "placement group %q does not exist", sqldb.Clean(name, 80))
}

// noPart returns the error for an object that a profile names. One that does not exist, or that is not
// published to the profile's project, is ErrInvalid.
func noPart(err error, kind seedbed.PublishedKind, name, profile string) error {
	return orInvalid(err, "the %s %q for profile %q does not exist", kind.Noun(), sqldb.Clean(name, 80), profile)
}
