package pvc

import (
	"context"
	"slices"
	"strings"

	"seedbed"
	"seedbed/api/server"

	"github.com/gofiber/fiber/v2"
)

// storageRow is a storage template as PVC shows it.
type storageRow struct {
	ID    int64     `json:"id"`
	Name  string    `json:"name"`
	OVA   *int64    `json:"ova"`
	Disks []diskRow `json:"disks"`
}

type diskRow struct {
	ID             int64   `json:"id"`
	Template       int64   `json:"storage_template"`
	Pool           string  `json:"pool"`
	DiskID         string  `json:"disk_id"`
	SourceVolume   *string `json:"source_volume"`
	SizeGB         *int64  `json:"disk_size_gb"`
	Mountpoint     *string `json:"mountpoint"`
	Filesystem     *string `json:"filesystem"`
	FilesystemArgs string  `json:"filesystem_args"`
}

func diskRowOf(d seedbed.TemplateDisk) diskRow {
	row := diskRow{
		ID: d.ID, Template: d.Template, Pool: d.Pool, DiskID: d.Name, SourceVolume: orNull(d.Source),
		Mountpoint: orNull(d.Mountpoint), Filesystem: orNull(d.Filesystem), FilesystemArgs: strings.Join(d.FilesystemArgs, " "),
	}
	if d.Size > 0 {
		gb := int64(d.Size / seedbed.GiB)
		row.SizeGB = &gb
	}
	return row
}

func storageRowOf(t seedbed.StorageTemplate) storageRow {
	return storageRow{ID: t.ID, Name: t.Name, Disks: server.Each(t.Disks, diskRowOf)}
}

func (r *router) storageTemplates() collection[seedbed.StorageTemplate] {
	return collection[seedbed.StorageTemplate]{
		r: r, kind: seedbed.PublishedStorageTemplate, list: r.Store.StorageTemplates, none: "No storage templates found.",
		names: func(t *seedbed.StorageTemplate) []*string {
			names := []*string{&t.Name}
			for n := range t.Disks {
				names = append(names, &t.Disks[n].Source)
			}
			return names
		},
		numbers: func(t *seedbed.StorageTemplate) []*int64 {
			numbers := []*int64{&t.ID}
			for n := range t.Disks {
				numbers = append(numbers, &t.Disks[n].ID, &t.Disks[n].Template)
			}
			return numbers
		},
		to: func(t *seedbed.StorageTemplate) *seedbed.Publication { return t.Published },
	}
}

func (r *router) storageRoutes(p string, get, post, del routing) {
	get(seedbed.ActionTemplateRead, p, listed(r.storageTemplates(), storageRowOf))
	get(seedbed.ActionTemplateRead, p+"/:name", element(r.storageTemplates(), storageRowOf))
	creating(post, seedbed.ActionTemplateManage, p, "name", "name", nameMissing, r.createStorageTemplate)
	del(seedbed.ActionTemplateManage, p+"/:name", removed(r.storageTemplates(), r.Store.DeleteStorageTemplate))

	get(seedbed.ActionTemplateRead, p+"/:name/disk", r.templateDisks)
	get(seedbed.ActionTemplateRead, p+"/:name/disk/:disk", r.templateDisks)
	creating(post, seedbed.ActionTemplateManage, p+"/:name/disk", "disk", "disk_id",
		"A disk identifier in sdX or vdX format must be specified.", r.addTemplateDisk)
	del(seedbed.ActionTemplateManage, p+"/:name/disk/:disk", func(ctx context.Context, c *fiber.Ctx, _ *fields) error {
		disk := server.Param(c, "disk")
		err := r.changeDisks(ctx, c, func(t *seedbed.StorageTemplate) error { return t.RemoveDisk(disk) })
		if err != nil {
			return err
		}
		return say(c, `Removed disk "%s" from storage template "%s".`, disk, server.Param(c, "name"))
	})
}

// changeDisks changes the storage template that the path names.
func (r *router) changeDisks(ctx context.Context, c *fiber.Ctx, change func(*seedbed.StorageTemplate) error) error {
	name, err := r.storageTemplates().owned(ctx, c)
	if err == nil {
		_, err = r.Store.ChangeStorageTemplate(ctx, name, change)
	}
	return err
}

func (r *router) createStorageTemplate(ctx context.Context, c *fiber.Ctx, f *fields, name string) error {
	if f.err != nil {
		return f.err
	}
	qualified, err := r.storageTemplates().called(c, name)
	if err != nil {
		return err
	}
	if _, err := r.Store.CreateStorageTemplate(ctx, qualified); err != nil {
		return err
	}
	return say(c, `Added new storage template "%s".`, name)
}

func (r *router) addTemplateDisk(ctx context.Context, c *fiber.Ctx, f *fields, disk string) error {
	d := seedbed.TemplateDisk{
		Name: disk, Pool: f.must("pool", "A storage pool must be specified."), Source: f.text("source_volume"),
		Filesystem: f.text("filesystem"), FilesystemArgs: f.list("filesystem_arg"), Mountpoint: f.text("mountpoint"),
	}
	if f.text("disk_size") != "" {
		d.Size = seedbed.Bytes(clamp(f.number("disk_size", "A disk_size value must be an integer."))) * seedbed.GiB
		if d.Size == 0 {
			f.refuse(refused(fiber.StatusBadRequest, "A disk_size value must be at least 1."))
		}
	}
	if f.err != nil {
		return f.err
	}
	pools, err := r.PoolNames(ctx)
	if err != nil {
		return err
	}
	if err := pools.Check(d); err != nil {
		return err
	}
	if err := r.changeDisks(ctx, c, func(t *seedbed.StorageTemplate) error { return t.AddDisk(d) }); err != nil {
		return err
	}
	return say(c, `Added new disk "%s" to storage template "%s".`, disk, server.Param(c, "name"))
}

// templateDisks answers the disks of a template, or only the one that the path names.
func (r *router) templateDisks(ctx context.Context, c *fiber.Ctx, _ *fields) error {
	name, disk := server.Param(c, "name"), server.Param(c, "disk")
	t, err := r.storageTemplates().one(ctx, server.CallerOf(c), name)
	if err != nil {
		return err
	}
	disks := slices.DeleteFunc(t.Disks, func(d seedbed.TemplateDisk) bool { return disk != "" && d.Name != disk })
	return rows(c, disks, diskRowOf, `No disks found in storage template "`+name+`".`)
}

// allTemplates answers the templates of all kinds whose names match.
func (r *router) allTemplates(ctx context.Context, c *fiber.Ctx, f *fields) error {
	m, who := f.match(), server.CallerOf(c)
	if f.err != nil {
		return f.err
	}
	systems, err := r.systems().matching(ctx, who, m)
	if err != nil {
		return err
	}
	networks, err := r.networkTemplates().matching(ctx, who, m)
	if err != nil {
		return err
	}
	storages, err := r.storageTemplates().matching(ctx, who, m)
	if err != nil {
		return err
	}
	return server.Reply(c, fiber.StatusOK, struct {
		Systems  []systemRow          `json:"system_templates"`
		Networks []networkTemplateRow `json:"network_templates"`
		Storages []storageRow         `json:"storage_templates"`
	}{server.Each(systems, systemRowOf), server.Each(networks, networkTemplateRowOf), server.Each(storages, storageRowOf)})
}
