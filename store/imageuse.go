package store

import (
	"context"
	"strings"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// imageUsers is where the users of an image are found: the word for one, and a query of the projects and
// names. The project of what has a qualified name is left empty.
var imageUsers = []struct{ what, query string }{
	{"profile", `SELECT '', name FROM profile WHERE image = $1 ORDER BY name`},
	{"storage template", `SELECT DISTINCT '', t.name FROM storage_template_disk d
		JOIN storage_template t ON t.id = d.template WHERE d.source = $1 ORDER BY t.name`},
	{"instance", `SELECT DISTINCT instance.project, ` + instances.FullName + ` AS full_name FROM volume
		JOIN instance ON instance.id = volume.instance WHERE volume.image = $1 ORDER BY full_name`},
}

// owned is the name of an object of a project, as messages have it.
type owned struct{ project, name string }

func scanOwned(r sqldb.Row) (o owned, err error) {
	err = r.Scan(&o.project, &o.name)
	if o.project == "" {
		o.project = seedbed.ProjectOf(o.name)
	}
	return o, err
}

// unusedImage returns ErrInUse, and says by what, if profiles or storage templates refer to the
// image or volumes are clones of it. It does not say what a project has of which the caller may not
// learn. With alone, it also returns ErrInUse if the image is a disk of an OVA image.
func unusedImage(ctx context.Context, tx *sqldb.Tx, name string, alone bool) error {
	if ova, err := sqldb.One(ctx, tx, sqldb.Value[string], nil, `SELECT ova FROM ova_volume WHERE image = $1`, name); err != nil {
		return err
	} else if alone && ova != "" {
		return seedbed.Errorf(seedbed.ErrInUse, "image %q is a disk of OVA image %q: remove that (seedbed ova remove)", name, ova)
	}
	var users []string
	var others bool
	tell := func(what string, all []owned) {
		told := catalogue.Told(ctx, all, func(o owned) string { return o.project })
		others = others || len(told) < len(all)
		if line := listed(what, told); line != "" {
			users = append(users, line)
		}
	}
	for _, u := range imageUsers {
		all, err := sqldb.List(ctx, tx, scanOwned, u.query, name)
		if err != nil {
			return err
		}
		tell(u.what, all)
	}
	rebuilt, err := rebuildsOf(ctx, tx, name)
	if err != nil {
		return err
	}
	for _, one := range rebuilt {
		tell("the rebuild of instance", []owned{one})
	}
	if others {
		users = append(users, "other projects")
	}
	if users == nil {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInUse, "image %q is used by %s: remove them first, or flatten the instances (seedbed vm flatten)",
		name, strings.Join(users, " and "))
}

// listed returns the names of some objects, at most five, after the word for one; empty if there are none.
func listed(what string, all []owned) string {
	const most = 5
	var names []string
	for _, o := range all[:min(most, len(all))] {
		names = append(names, o.name)
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return what + " " + names[0]
	}
	if len(all) > most {
		names[most-1] += " and others"
	}
	return what + "s " + strings.Join(names, ", ")
}
