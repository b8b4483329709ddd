package drivertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// adoptable returns the volume whose disk has that source, if it is not Seedbed's. The lock is held.
func (p *Pool) adoptable(disk string) (volume, error) {
	for _, v := range p.volumes {
		switch {
		case disk != p.source(v.Name):
		case v.Instance != "":
			return v, seedbed.Errorf(seedbed.ErrConflict, "%s is a volume already", disk)
		default:
			return v, nil
		}
	}
	return volume{}, seedbed.Errorf(seedbed.ErrNotFound, "%s is not in pool %s", disk, p.name)
}

// Locate implements worker.Adopter.
func (p *Pool) Locate(ctx context.Context, d seedbed.ForeignDisk) (seedbed.ForeignDisk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.adoptable(d.Source)
	if err != nil {
		return d, err
	}
	d.Pool, d.Size, d.Image = p.name, seedbed.Bytes(v.Size), v.Image
	return d, ctx.Err()
}

// AdoptVolume implements worker.Adopter.
func (p *Pool) AdoptVolume(ctx context.Context, job seedbed.JobID, a seedbed.VolumeAdoption) (seedbed.VolumeInfo, error) {
	return effect(ctx, p, "AdoptVolume", func() (info seedbed.VolumeInfo, err error) {
		if v, there := p.volumes[a.Name]; there && v.Instance == a.Instance {
			return p.info(&v), nil
		} else if there && a.Source != p.source(a.Name) {
			return info, seedbed.Errorf(seedbed.ErrConflict, "volume %s exists and is another one", a.Name)
		}
		v, err := p.adoptable(a.Source)
		if err != nil {
			return info, err
		}
		delete(p.volumes, v.Name)
		v.Name, v.Instance, v.Project, v.Job = a.Name, a.Instance, a.Project, job
		p.volumes[a.Name] = v
		return p.info(&v), nil
	})
}

// ReleaseVolume implements worker.Adopter.
func (p *Pool) ReleaseVolume(ctx context.Context, a seedbed.VolumeAdoption) error {
	return p.effect(ctx, "ReleaseVolume", func() error {
		v, there := p.volumes[a.Name]
		if !there || v.Instance == "" {
			return nil
		}
		if err := cmp.Or(v.CheckInstance(p.name, a.Instance), p.unused(&v)); err != nil {
			return err
		}
		name := a.Name
		if a.Source != "" {
			name = strings.TrimSuffix(strings.TrimPrefix(a.Source, "/memory/"), ".qcow2")
		}
		if _, taken := p.volumes[name]; taken && name != a.Name {
			return seedbed.Errorf(seedbed.ErrConflict, "%s is taken", a.Source)
		}
		delete(p.volumes, a.Name)
		v.Name, v.Instance, v.Project, v.Job, v.Trash = name, "", "", "", nil
		p.volumes[name] = v
		return nil
	})
}

// asForeign returns a domain without the tag as callers see it.
func (d *domain) asForeign(id seedbed.InstanceID) seedbed.ForeignDomain {
	return seedbed.ForeignDomain{ID: id, Name: d.spec.Name, State: d.state, VCPUs: d.spec.VCPUs, Memory: d.spec.Memory,
		Disks: []seedbed.ForeignDisk{}, NICs: []seedbed.ForeignNIC{}, Problems: []string{}}
}

// ForeignDomains implements worker.DomainAdopter.
func (h *Hypervisor) ForeignDomains(ctx context.Context) ([]seedbed.ForeignDomain, error) {
	all := []seedbed.ForeignDomain{}
	err := h.effect(ctx, "ForeignDomains", func() error {
		for _, id := range slices.Sorted(maps.Keys(h.domains)) {
			if d := h.domains[id]; d.foreign {
				all = append(all, d.asForeign(id))
			}
		}
		return nil
	})
	return all, err
}

// ForeignDomain implements worker.DomainAdopter.
func (h *Hypervisor) ForeignDomain(ctx context.Context, name string) (f seedbed.ForeignDomain, err error) {
	err = h.effect(ctx, "ForeignDomain", func() error {
		for id, d := range h.domains {
			if d.spec.Name != name {
				continue
			}
			if !d.foreign {
				return seedbed.Errorf(seedbed.ErrConflict, "domain %q is an instance already", name)
			}
			f = d.asForeign(id)
			for i, disk := range d.spec.Disks {
				f.Disks = append(f.Disks, seedbed.ForeignDisk{Target: "vd" + string(rune('a'+i)), Type: disk.Type, Source: disk.Source,
					Format: disk.Format})
			}
			for _, n := range d.spec.NICs {
				f.NICs = append(f.NICs, seedbed.ForeignNIC{MAC: n.MAC, Bridge: n.Bridge})
			}
			if d.state == seedbed.DomainRunning {
				f.Problems = append(f.Problems, "the domain is running: shut it down first")
			}
			return nil
		}
		return seedbed.Errorf(seedbed.ErrNotFound, "there is no domain %q", name)
	})
	return f, err
}

// AdoptDomain implements worker.DomainAdopter.
func (h *Hypervisor) AdoptDomain(ctx context.Context, a seedbed.DomainAdoption) error {
	return h.effect(ctx, "AdoptDomain", func() error {
		d, there := h.domains[a.ID]
		switch {
		case !there:
			return seedbed.Errorf(seedbed.ErrNotFound, "there is no domain %s", a.ID)
		case !d.foreign:
			return nil
		case d.spec.Name != a.Name || !slices.Equal(sources(d.spec.Disks), a.Sources) || len(d.spec.NICs) != len(a.NICs):
			return seedbed.Errorf(seedbed.ErrConflict, "domain %s is not what it was", a.ID)
		case d.state == seedbed.DomainRunning:
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s runs", a.ID)
		}
		d.foreign, d.spec.Job, d.spec.Profile, d.spec.Project = false, a.Job, a.Profile, a.Project
		d.spec.Disks, d.spec.NICs = slices.Clone(a.Disks), slices.Clone(a.NICs)
		return nil
	})
}

// ReleaseDomain implements worker.DomainAdopter.
func (h *Hypervisor) ReleaseDomain(ctx context.Context, a seedbed.DomainAdoption) error {
	return h.effect(ctx, "ReleaseDomain", func() error {
		d, there := h.domains[a.ID]
		if !there || d.foreign {
			return nil
		}
		if len(a.Sources) > 0 {
			if d.state == seedbed.DomainRunning {
				return seedbed.Errorf(seedbed.ErrInUse, "domain %s runs", a.ID)
			}
			for i := range d.spec.Disks {
				d.spec.Disks[i].Source = a.Sources[i]
			}
			for i := range d.spec.NICs {
				d.spec.NICs[i].Tap = ""
			}
		}
		d.foreign = true
		return nil
	})
}

func sources(disks []seedbed.Disk) []string {
	all := []string{}
	for _, d := range disks {
		all = append(all, d.Source)
	}
	return all
}

// AddForeignMachine defines a domain without Seedbed's tag, with that disk and MAC.
func (h *Hypervisor) AddForeignMachine(id seedbed.InstanceID, name, disk string, mac seedbed.MAC, bridge string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.domains[id] = &domain{state: seedbed.DomainOff, foreign: true,
		spec: seedbed.DomainSpec{ID: id, Name: name, VCPUs: 2, Memory: seedbed.GiB,
			Disks: []seedbed.Disk{{Type: "file", Source: disk, Format: "qcow2"}}, NICs: []seedbed.DomainNIC{{MAC: mac, Bridge: bridge}}}}
}
