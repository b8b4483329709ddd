package intake

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"seedbed"
)

// ImportOVA accepts a request to make an OVA image called name from an uploaded file: an image of
// each disk, and a system template and a profile of that name, which uses the script called script.
// Errors: seedbed.ErrInvalid for a wrong name or a file that is not an OVA, ErrExists for a name in
// use.
func (in *Intake) ImportOVA(ctx context.Context, name, script string, up seedbed.Upload, o seedbed.JobOptions) (seedbed.Receipt, error) {
	if err := seedbed.CheckOVAName(name); err != nil {
		return seedbed.Receipt{}, err
	}
	if up.Appliance == nil {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid,
			"the uploaded file is not an OVA: expected a tar archive that starts with an .ovf descriptor, "+
				"or import a disk image (seedbed image upload)")
	}
	made := newOVA(name, script, up)
	raw, err := json.Marshal(seedbed.OVAJob{Upload: up.ID, SHA256: up.SHA256, Volumes: made.OVA.Volumes})
	if err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the import of %s: %w", name, err)
	}
	id, err := in.distinctJob(ctx)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	node, err := in.placer.Holder(ctx, up.Pool, up.Node)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: id, Kind: seedbed.JobOVA, State: seedbed.JobQueued, Subject: name, Spec: raw, Node: node, Pool: up.Pool,
			JobOptions: o},
		OVA: &made,
	})
}

// RemoveOVA accepts a request to remove the OVA image called name, with its disks, its system
// template and its profiles. Errors: seedbed.ErrNotFound, ErrInUse while volumes are clones of its
// disks, other profiles use its system template, or a job works on it.
func (in *Intake) RemoveOVA(ctx context.Context, name string, o seedbed.JobOptions) (seedbed.Receipt, error) {
	if err := seedbed.CheckOVAName(name); err != nil {
		return seedbed.Receipt{}, err
	}
	node, err := in.whereImage(ctx, seedbed.OVAImage(name, seedbed.DiskName(0)))
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobOVARemove, State: seedbed.JobQueued, Subject: name, Node: node,
			JobOptions: o},
	})
}

// ovaDowntime is the migration downtime of an OVA's system template, the same as PVC's.
const ovaDowntime = 300 * time.Millisecond

// newOVA returns what the import of an OVA creates.
func newOVA(name, script string, up seedbed.Upload) seedbed.NewOVA {
	a := up.Appliance
	made := seedbed.NewOVA{
		OVA: seedbed.OVA{Name: name, State: seedbed.ImageImporting},
		System: seedbed.SystemTemplate{
			Name: name, VCPUs: a.VCPUs, Memory: a.Memory, VNC: a.Screen, Serial: !a.Screen, MigrationDowntime: ovaDowntime, OVA: name,
		},
		Profile: seedbed.NewScripted(name, script),
	}
	made.Profile.System, made.Profile.OVA = name, name
	for i, d := range a.Disks {
		v := seedbed.OVAVolume{Disk: seedbed.DiskName(i), Pool: up.Pool, File: d.File, Size: d.Capacity}
		v.Image = seedbed.OVAImage(name, v.Disk)
		v.Format = strings.ToLower(strings.TrimPrefix(path.Ext(d.File), "."))
		if v.Size == 0 {
			v.Size = d.Size
		}
		made.OVA.Volumes = append(made.OVA.Volumes, v)
		image := seedbed.Image{Name: v.Image, Pool: v.Pool, State: seedbed.ImageImporting, Source: "ova:" + name + "/" + d.File,
			SHA256: up.SHA256}
		if i == 0 {
			image.Firmware = a.Firmware
		}
		made.Images = append(made.Images, image)
	}
	return made
}

// withOVA puts the disks of an OVA image, which may be nil, before those of a storage template. A
// template's disk whose name is taken is renamed by its position.
func withOVA(ova *seedbed.OVA, t *seedbed.StorageTemplate) *seedbed.StorageTemplate {
	var disks []seedbed.TemplateDisk
	if ova != nil {
		for _, v := range ova.Volumes {
			disks = append(disks, seedbed.TemplateDisk{Name: v.Disk, Pool: v.Pool, Source: v.Image})
		}
	}
	return withDisks(disks, t)
}

// withDisks puts disks before those of a storage template, which may be nil.
func withDisks(disks []seedbed.TemplateDisk, t *seedbed.StorageTemplate) *seedbed.StorageTemplate {
	if t == nil {
		t = &seedbed.StorageTemplate{}
	}
	all := *t
	all.Disks = disks
	taken := func(name string) bool {
		return slices.ContainsFunc(all.Disks, func(d seedbed.TemplateDisk) bool { return d.Name == name })
	}
	for _, d := range t.Disks {
		for n := len(all.Disks); taken(d.Name); n++ {
			d.Name = seedbed.DiskName(n)
		}
		all.Disks = append(all.Disks, d)
	}
	return &all
}
