package store

import (
	"context"

	"seedbed"
	"seedbed/store/catalogue"
	"seedbed/store/instances"
	"seedbed/store/sqldb"
)

// imageUsers is where the users of an image are found.
var imageUsers = []catalogue.UserKind{
	{What: "profile", Query: `SELECT '', name FROM profile WHERE image = $1 ORDER BY name`},
	{What: "storage template", Query: `SELECT DISTINCT '', t.name FROM storage_template_disk d
		JOIN storage_template t ON t.id = d.template WHERE d.source = $1 ORDER BY t.name`},
	{What: "instance", Query: `SELECT DISTINCT instance.project, ` + instances.FullName + ` AS full_name FROM volume
		JOIN instance ON instance.id = volume.instance WHERE volume.image = $1 ORDER BY full_name`},
	{What: "the CD-ROM drive of instance", Query: `SELECT instance.project, ` + instances.FullName + ` AS full_name FROM instance
		WHERE instance.cdrom = $1 ORDER BY full_name`},
	{What: "volume", Query: `SELECT project, name FROM project_volume WHERE image = $1 ORDER BY project, name`},
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
	var users catalogue.Uses
	if err := users.Read(ctx, tx, imageUsers, name); err != nil {
		return err
	}
	rebuilt, err := rebuildsOf(ctx, tx, name)
	if err != nil {
		return err
	}
	for _, one := range rebuilt {
		users.Add(ctx, "the rebuild of instance", []catalogue.User{one})
	}
	inserted, err := insertsOf(ctx, tx, name)
	if err != nil {
		return err
	}
	users.Add(ctx, "a change of the CD-ROM drive of instance", inserted)
	by := users.String()
	if by == "" {
		return nil
	}
	return seedbed.Errorf(seedbed.ErrInUse, "image %q is used by %s: remove them first, flatten the instances (seedbed vm flatten), "+
		"or eject the image (seedbed vm cdrom eject)",
		name, by)
}
