package drivertest

import (
	"cmp"
	"context"
	"slices"

	"seedbed"
)

// Volume implements worker.Resizer.
func (p *Pool) Volume(ctx context.Context, name string, id seedbed.InstanceID) (seedbed.VolumeInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.must(name, id)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return p.info(v), ctx.Err()
}

// ResizeVolume implements worker.Resizer.
func (p *Pool) ResizeVolume(ctx context.Context, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error) {
	return effect(ctx, p, "ResizeVolume", func() (info seedbed.VolumeInfo, err error) {
		if err := seedbed.CheckName("volume", name); err != nil {
			return info, err
		}
		v, err := p.must(name, id)
		if err != nil {
			return info, err
		}
		if err := cmp.Or(p.info(v).CheckGrowth(size), p.unused(v)); err != nil {
			return info, err
		}
		if int64(size) > v.Size {
			if err := p.room(); err != nil {
				return info, err
			}
			v.Grow(size)
			p.volumes[name] = *v
		}
		return p.info(v), nil
	})
}

// ResizeDisk implements worker.DomainResizer.
func (h *Hypervisor) ResizeDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.Disk, size seedbed.Bytes) error {
	return h.effect(ctx, "ResizeDisk", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil || d.state == seedbed.DomainOff {
			return err
		}
		all := slices.Clone(d.spec.Disks)
		for _, a := range d.spec.Attached {
			all = append(all, a.Disk)
		}
		for _, own := range all {
			if own.Source != disk.Source {
				continue
			}
			if d.told[disk.Source] > size {
				return seedbed.Errorf(seedbed.ErrInvalid, "disk %s has %s already", disk.Source, d.told[disk.Source])
			}
			if d.told == nil {
				d.told = map[string]seedbed.Bytes{}
			}
			d.told[disk.Source] = size
		}
		return nil
	})
}

// Files has the domains open the volumes of these pools as files, which no one else may change then.
func (h *Hypervisor) Files(pools ...*Pool) {
	h.mu.Lock()
	h.files = append(h.files, pools...)
	h.mu.Unlock()
	for _, p := range pools {
		p.mu.Lock()
		p.openers = append(p.openers, h)
		p.mu.Unlock()
	}
}

// opens reports whether a domain that is not off has the disk at source.
func (h *Hypervisor) opens(source string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.domains {
		if d.opens(source) {
			return true
		}
	}
	return false
}

func (d *domain) opens(source string) bool {
	has := slices.ContainsFunc(d.spec.Disks, func(k seedbed.Disk) bool { return k.Source == source }) ||
		slices.ContainsFunc(d.spec.Attached, func(a seedbed.AttachedDisk) bool { return a.Source == source })
	return has && (d.state == seedbed.DomainRunning || d.state == seedbed.DomainPaused)
}

// opened returns a domain, nil if it is absent or off, and the pools.
func (h *Hypervisor) opened(id seedbed.InstanceID) (*domain, []*Pool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil {
		return nil, nil, h.down
	}
	d, err := h.ours(id)
	if d == nil || err != nil || d.state != seedbed.DomainRunning && d.state != seedbed.DomainPaused {
		return nil, nil, err
	}
	now := *d
	return &now, h.files, nil
}

// SnapshotDisks implements worker.DiskSnapshotter.
func (h *Hypervisor) SnapshotDisks(ctx context.Context, id seedbed.InstanceID, all []seedbed.DiskSnapshot) error {
	return h.around(ctx, "SnapshotDisks", func() error {
		d, pools, err := h.opened(id)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrUnavailable, "domain %s is off", id)
		}
		for _, s := range all {
			if !d.opens(s.Disk.Source) {
				return seedbed.Errorf(seedbed.ErrConflict, "domain %s has no disk %s", id, s.Disk.Source)
			}
		}
		for _, s := range all {
			inside(pools, s.Disk.Source, func(c *content) { c.keep(s.Name) })
		}
		return nil
	})
}

// DropDiskSnapshot implements worker.DiskSnapshotter.
func (h *Hypervisor) DropDiskSnapshot(ctx context.Context, id seedbed.InstanceID, s seedbed.DiskSnapshot) error {
	return h.around(ctx, "DropDiskSnapshot", func() error {
		d, pools, err := h.opened(id)
		if d == nil || err != nil || !d.opens(s.Disk.Source) {
			return err
		}
		inside(pools, s.Disk.Source, func(c *content) { c.drop(s.Name) })
		return nil
	})
}

// AttachDisk implements worker.DiskAttacher.
func (h *Hypervisor) AttachDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.AttachedDisk) error {
	return h.effect(ctx, "AttachDisk", func() error {
		d, err := h.ours(id)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", id)
		}
		for _, have := range d.spec.Attached {
			if have.Serial == disk.Serial {
				return nil
			}
			if have.Device == disk.Device {
				return seedbed.Errorf(seedbed.ErrConflict, "domain %s has a disk %s already", d.spec.Name, disk.Device)
			}
		}
		d.spec.Attached = append(slices.Clone(d.spec.Attached), disk)
		return nil
	})
}

// LimitDisk implements worker.DiskAttacher.
func (h *Hypervisor) LimitDisk(ctx context.Context, id seedbed.InstanceID, serial string, l seedbed.IOLimits) error {
	return h.effect(ctx, "LimitDisk", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil {
			return err
		}
		d.spec.Attached = slices.Clone(d.spec.Attached)
		for n := range d.spec.Attached {
			if d.spec.Attached[n].Serial == serial {
				d.spec.Attached[n].Limits = l
			}
		}
		return nil
	})
}

// DetachDisk implements worker.DiskAttacher. A deaf guest does not let go of a disk.
func (h *Hypervisor) DetachDisk(ctx context.Context, id seedbed.InstanceID, serial string) error {
	return h.effect(ctx, "DetachDisk", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(d.spec.Attached), func(a seedbed.AttachedDisk) bool { return a.Serial == serial })
		if len(left) < len(d.spec.Attached) && d.deaf && d.state == seedbed.DomainRunning {
			return seedbed.Errorf(seedbed.ErrInUse, "the guest of domain %s does not let go of the disk: unmount it there first", d.spec.Name)
		}
		d.spec.Attached = left
		return nil
	})
}

// AttachNIC implements worker.NICAttacher.
func (h *Hypervisor) AttachNIC(ctx context.Context, id seedbed.InstanceID, nic seedbed.DomainNIC) error {
	return h.effect(ctx, "AttachNIC", func() error {
		d, err := h.ours(id)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", id)
		}
		for _, have := range d.spec.NICs {
			if have == nic {
				return nil
			}
			if have.MAC == nic.MAC {
				return seedbed.Errorf(seedbed.ErrConflict, "domain %s has a NIC %s at another place", d.spec.Name, nic.MAC)
			}
		}
		d.spec.NICs = append(slices.Clone(d.spec.NICs), nic)
		return nil
	})
}

// DetachNIC implements worker.NICAttacher. A deaf guest does not let go of a NIC.
func (h *Hypervisor) DetachNIC(ctx context.Context, id seedbed.InstanceID, mac seedbed.MAC) error {
	return h.effect(ctx, "DetachNIC", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(d.spec.NICs), func(n seedbed.DomainNIC) bool { return n.MAC == mac })
		if len(left) < len(d.spec.NICs) && d.deaf && d.state == seedbed.DomainRunning {
			return seedbed.Errorf(seedbed.ErrInUse, "the guest of domain %s does not let go of the NIC", d.spec.Name)
		}
		d.spec.NICs = left
		return nil
	})
}

// ResizeDomain implements worker.DomainResizer.
func (h *Hypervisor) ResizeDomain(ctx context.Context, id seedbed.InstanceID, vcpus int, memory seedbed.Bytes) error {
	return h.effect(ctx, "ResizeDomain", func() error {
		d, err := h.ours(id)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", id)
		case d.spec.VCPUs == cmp.Or(vcpus, d.spec.VCPUs) && d.spec.Memory == cmp.Or(memory, d.spec.Memory):
			return nil
		case d.state != seedbed.DomainOff:
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s runs: shut it down first", d.spec.Name)
		}
		d.spec.VCPUs, d.spec.Memory = cmp.Or(vcpus, d.spec.VCPUs), cmp.Or(memory, d.spec.Memory)
		return nil
	})
}

// Told returns the size that a running domain's guest was told of its disk; zero if it was not
// told.
func (h *Hypervisor) Told(id seedbed.InstanceID, disk string) seedbed.Bytes {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.domains[id]; ok {
		return d.told[disk]
	}
	return 0
}
