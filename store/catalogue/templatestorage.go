package catalogue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"path"
	"regexp"
	"slices"

	"seedbed"
	"seedbed/store/sqldb"
)

const (
	storageColumns      = `name, revision, created, changed`
	templateDiskColumns = `template, name, pool, source, size, filesystem, filesystem_args, mountpoint`
)

// storageValues returns the values of storageColumns.
func storageValues(t seedbed.StorageTemplate) []any {
	return []any{t.Name, t.Revision, sqldb.Micros(t.Created), sqldb.Micros(t.Changed)}
}

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
	if err := seedbed.CheckQualifiedName(kindStorage.Noun(), name); err != nil {
		return t, err
	}
	t = seedbed.StorageTemplate{ObjectMeta: newStored(), Name: name, Disks: []seedbed.TemplateDisk{}}
	t.ID, err = s.createObject(ctx, kindStorage, `storage_template (`+storageColumns+`)`, name, storageValues(t)...)
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
	all, err := objects(ctx, tx, kindStorage, scanStorageTemplate, func(t seedbed.StorageTemplate) string { return t.Name }, m,
		`SELECT id, `+storageColumns+` FROM storage_template WHERE %s ORDER BY name`)
	if err != nil {
		return nil, err
	}
	disks, err := matched(ctx, tx, scanTemplateDisk, m, "name", `
		SELECT id, `+templateDiskColumns+` FROM storage_template_disk
		WHERE template IN (SELECT id FROM storage_template WHERE %s) ORDER BY name`)
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
		return seedbed.Errorf(seedbed.ErrInvalid, "filesystem %q is unknown: expected a name such as ext4, xfs or swap",
			sqldb.Clean(d.Filesystem, 80))
	case d.Mountpoint != "" && d.Filesystem != "swap" && (!path.IsAbs(d.Mountpoint) || path.Clean(d.Mountpoint) != d.Mountpoint):
		return seedbed.Errorf(seedbed.ErrInvalid, "mountpoint %q is not a clean absolute path",
			sqldb.Clean(d.Mountpoint, 80))
	case len(d.FilesystemArgs) > maxFilesystemArgs:
		return seedbed.Errorf(seedbed.ErrInvalid,
			"there are %d filesystem arguments: expected at most %d", len(d.FilesystemArgs), maxFilesystemArgs)
	}
	for _, a := range d.FilesystemArgs {
		if err := oneLine("filesystem_arg", a, 1024); err != nil {
			return err
		}
	}
	return nil
}

// readStorage reads the storage template of that name.
func readStorage(ctx context.Context, tx *sqldb.Tx, name string) (seedbed.StorageTemplate, error) {
	found, err := storageTemplates(ctx, tx, seedbed.ExactName(name))
	return only(kindStorage, name, found, err)
}

// ChangeStorageTemplate changes a storage template by calling change, possibly more than once.
// change adds disks without an ID, and removes others. The source of a disk, if any, must be an image
// in its pool, or the error is ErrInvalid. Instances that were made from the template do not change.
// ChangeStorageTemplate returns ErrNotFound, ErrInvalid or the error of change.
func (s *Store) ChangeStorageTemplate(
	ctx context.Context, name string, change func(*seedbed.StorageTemplate) error,
) (t seedbed.StorageTemplate, err error) {
	err = s.locked(ctx, "change", kindStorage, name, func(tx *sqldb.Tx) error {
		was, err := readStorage(ctx, tx, name)
		if err != nil {
			return err
		}
		t = was
		t.Disks = slices.Clone(was.Disks)
		if err := change(&t); err != nil {
			return err
		}
		t.Name, t.ObjectMeta = was.Name, changed(was.ObjectMeta)
		if err := update(ctx, tx, "storage_template", storageColumns, t.ID, storageValues(t)); err != nil {
			return err
		}
		err = setParts(ctx, tx, "storage_template_disk", was.Disks, t.Disks,
			func(d seedbed.TemplateDisk) int64 { return d.ID },
			func(d seedbed.TemplateDisk) error { return insertDisk(ctx, tx, t, d) })
		if err != nil {
			return err
		}
		t, err = readStorage(ctx, tx, name)
		return err
	})
	return t, err
}

// insertDisk adds a disk to the storage template. Its source is an image that the template's project uses.
func insertDisk(ctx context.Context, tx *sqldb.Tx, t seedbed.StorageTemplate, d seedbed.TemplateDisk) error {
	if err := checkDisk(d); err != nil {
		return err
	}
	if d.Source != "" {
		asked := d.Source
		img, err := useImage(ctx, tx, seedbed.ProjectOf(t.Name), asked)
		if err != nil || img.Pool != d.Pool {
			return orInvalid(err, "the source volume %s/%s could not be found: expected an image of that pool (seedbed image list)",
				d.Pool, sqldb.Clean(asked, 80))
		}
		d.Source = img.Name
	}
	values := []any{t.ID, d.Name, d.Pool, sqldb.Null(d.Source), d.Size, d.Filesystem,
		sqldb.AsJSON(sqldb.OrEmpty(d.FilesystemArgs)), d.Mountpoint}
	return sqldb.Exec(ctx, tx, sqldb.InsertRows(`storage_template_disk (`+templateDiskColumns+`)`, 1, len(values)), values...)
}

// orInvalid returns err if the database itself failed, and otherwise an ErrInvalid with that
// message.
func orInvalid(err error, format string, args ...any) error {
	if err != nil && !errors.Is(err, seedbed.ErrInvalid) && !errors.Is(err, seedbed.ErrNotFound) {
		return err
	}
	return seedbed.Errorf(seedbed.ErrInvalid, format, args...)
}

// PublishStorageTemplate says to which other projects a storage template is published; see [Store.PublishProfile].
func (s *Store) PublishStorageTemplate(
	ctx context.Context, name string, to seedbed.Publication, checks ...func(seedbed.StorageTemplate) error,
) (seedbed.StorageTemplate, error) {
	return publish(ctx, s, kindStorage, name, to, readStorage, checks)
}

// DeleteStorageTemplate removes a storage template with its disks. If profiles use it,
// DeleteStorageTemplate returns an ErrInUse that names them. If the template does not pass a check,
// it returns the error of that.
func (s *Store) DeleteStorageTemplate(ctx context.Context, name string, checks ...func(seedbed.StorageTemplate) error) error {
	return deleteObject(ctx, s, kindStorage, "storage", name, readStorage, checks)
}
