package catalogue

import (
	"cmp"
	"context"
	"database/sql"
	"path"
	"regexp"

	"seedbed"
	"seedbed/store/sqldb"
)

func scanStorageTemplate(r sqldb.Row) (t seedbed.StorageTemplate, err error) {
	t.Disks = []seedbed.TemplateDisk{}
	err = r.Scan(&t.ID, &t.Name, &t.Revision, sqldb.ToTime(&t.Created), sqldb.ToTime(&t.Changed))
	return t, err
}

func scanTemplateDisk(r sqldb.Row) (d seedbed.TemplateDisk, err error) {
	var source sql.NullString
	err = r.Scan(&d.ID, &d.Template, &d.Name, &d.Pool, &source, &d.Size, &d.Filesystem, sqldb.ToJSON(&d.FilesystemArgs), &d.Mountpoint)
	d.Source = source.String
	return d, err
}

// CreateStorageTemplate adds a storage template without disks.
func (s *Store) CreateStorageTemplate(ctx context.Context, name string) (t seedbed.StorageTemplate, err error) {
	if err := seedbed.CheckName(kindStorage, name); err != nil {
		return t, err
	}
	t = seedbed.StorageTemplate{ObjectMeta: newStored(), Name: name, Disks: []seedbed.TemplateDisk{}}
	t.ID, err = s.createObject(ctx, kindStorage, intoStorageTemplate, name, name, t.Revision, sqldb.Micros(t.Created), sqldb.Micros(t.Changed))
	return t, err
}

// StorageTemplates returns the storage templates whose names match, sorted by name.
func (s *Store) StorageTemplates(ctx context.Context, m seedbed.NameMatch) (all []seedbed.StorageTemplate, err error) {
	err = s.db.View(ctx, "list storage templates", func(tx *sqldb.Tx) error {
		all, err = storageTemplates(ctx, tx, m)
		return err
	})
	return all, err
}

func storageTemplates(ctx context.Context, tx *sqldb.Tx, m seedbed.NameMatch) ([]seedbed.StorageTemplate, error) {
	all, err := matched(ctx, tx, scanStorageTemplate, m, "name",
		`SELECT id, name, revision, created, changed FROM storage_template WHERE %s ORDER BY name`)
	if err != nil {
		return nil, err
	}
	disks, err := matched(ctx, tx, scanTemplateDisk, m, "t.name", `
		SELECT d.id, d.template, d.name, d.pool, d.source, d.size, d.filesystem, d.filesystem_args, d.mountpoint
		FROM storage_template_disk d JOIN storage_template t ON t.id = d.template WHERE %s ORDER BY d.name`)
	if err != nil {
		return nil, err
	}
	at := map[int64]int{}
	for i, t := range all {
		at[t.ID] = i
	}
	for _, d := range disks {
		t := &all[at[d.Template]]
		t.Disks = append(t.Disks, d)
	}
	return all, nil
}

const maxFilesystemArgs = 64

var filesystemForm = regexp.MustCompile(`^[a-z][a-z0-9.]{0,15}$`)

func checkDisk(d seedbed.TemplateDisk) error {
	err := cmp.Or(seedbed.CheckName("disk", d.Name), seedbed.CheckName("pool", d.Pool), seedbed.CheckDisk("disk_size", d.Size),
		oneLine("mountpoint", d.Mountpoint, 1024))
	clone := d.Source != ""
	switch {
	case err != nil:
		return err
	case clone && (d.Size != 0 || d.Filesystem != "" || d.Mountpoint != ""):
		return seedbed.Errorf(seedbed.ErrInvalid, "clone volumes are not compatible with disk size, filesystem, or mountpoint specifications")
	case !clone && d.Size == 0:
		return seedbed.Errorf(seedbed.ErrInvalid, "a disk size or a source volume must be specified")
	case d.Mountpoint != "" && d.Filesystem == "":
		return seedbed.Errorf(seedbed.ErrInvalid, "a filesystem must be specified along with a mountpoint")
	case d.Filesystem != "" && !filesystemForm.MatchString(d.Filesystem):
		return seedbed.Errorf(seedbed.ErrInvalid, "filesystem %q is unknown: want a name such as ext4, xfs or swap",
			sqldb.Clean(d.Filesystem, 80))
	case d.Mountpoint != "" && d.Filesystem != "swap" && (!path.IsAbs(d.Mountpoint) || path.Clean(d.Mountpoint) != d.Mountpoint):
		return seedbed.Errorf(seedbed.ErrInvalid, "mountpoint %q is no place in the guest: want a clean absolute path",
			sqldb.Clean(d.Mountpoint, 80))
	case len(d.FilesystemArgs) > maxFilesystemArgs:
		return seedbed.Errorf(seedbed.ErrInvalid, "there are %d filesystem arguments: want at most %d", len(d.FilesystemArgs), maxFilesystemArgs)
	}
	for _, a := range d.FilesystemArgs {
		if err := oneLine("filesystem_arg", a, 1024); err != nil {
			return err
		}
	}
	return nil
}

// AddTemplateDisk adds a disk to a storage template. Its source, if any, must be an image in its
// pool, or the error is ErrInvalid.
func (s *Store) AddTemplateDisk(ctx context.Context, template string, d seedbed.TemplateDisk) error {
	if err := checkDisk(d); err != nil {
		return err
	}
	return s.db.Update(ctx, "change "+kindStorage+" "+sqldb.Clean(template, 80), func(tx *sqldb.Tx) error {
		id, err := touchObject(ctx, tx, kindStorage, "storage_template", template)
		if err != nil {
			return err
		}
		if d.Source != "" {
			img, err := ReadImage(ctx, tx, d.Source, seedbed.ErrInvalid)
			if err != nil || img.Pool != d.Pool {
				return orInvalid(err, "the source volume %s/%s could not be found: want an image of that pool (seedbed image list)",
					d.Pool, sqldb.Clean(d.Source, 80))
			}
		}
		n, err := sqldb.One(ctx, tx, sqldb.Value[int], nil, `SELECT COUNT(*) FROM storage_template_disk WHERE template = $1`, id)
		if err != nil {
			return err
		}
		if n >= MaxVolumes {
			return seedbed.Errorf(seedbed.ErrInvalid, "the storage template %q has %d disks: a machine has no more", template, n)
		}
		made, err := sqldb.Affect(ctx, tx, `
			INSERT INTO storage_template_disk (template, name, pool, source, size, filesystem, filesystem_args, mountpoint)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			id, d.Name, d.Pool, sqldb.Null(d.Source), d.Size, d.Filesystem, sqldb.AsJSON(sqldb.OrEmpty(d.FilesystemArgs)), d.Mountpoint)
		if err == nil && made == 0 {
			err = seedbed.Errorf(seedbed.ErrExists, "the disk %q in storage template %q already exists", d.Name, template)
		}
		return err
	})
}

// orInvalid returns err if the database itself failed, and otherwise an ErrInvalid with that
// message.
func orInvalid(err error, format string, args ...any) error {
	if err != nil && seedbed.KindName(err) != "invalid" {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, format, args...)
}

// RemoveTemplateDisk removes a disk from a storage template.
func (s *Store) RemoveTemplateDisk(ctx context.Context, template, name string) error {
	return s.db.Update(ctx, "change "+kindStorage+" "+sqldb.Clean(template, 80), func(tx *sqldb.Tx) error {
		id, err := touchObject(ctx, tx, kindStorage, "storage_template", template)
		if err != nil {
			return err
		}
		n, err := sqldb.Affect(ctx, tx, `DELETE FROM storage_template_disk WHERE template = $1 AND name = $2`, id, name)
		if err == nil && n == 0 || err != nil && sqldb.Unstorable(err) {
			err = seedbed.Errorf(seedbed.ErrNotFound, "the disk %q in storage template %q does not exist", sqldb.Clean(name, 80), template)
		}
		return err
	})
}

// DeleteStorageTemplate removes a storage template with its disks. If profiles use it,
// DeleteStorageTemplate returns an ErrInUse that names them.
func (s *Store) DeleteStorageTemplate(ctx context.Context, name string) error {
	return s.deleteObject(ctx, kindStorage, "storage_template", "storage", name)
}
