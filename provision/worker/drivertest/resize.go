package drivertest

import (
	"cmp"
	"context"

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
	return v.VolumeInfo, ctx.Err()
}

// ResizeVolume implements worker.Resizer.
func (p *Pool) ResizeVolume(ctx context.Context, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error) {
	var info seedbed.VolumeInfo
	err := p.effect(ctx, "ResizeVolume", func() error {
		if err := seedbed.CheckName("volume", name); err != nil {
			return err
		}
		v, err := p.must(name, id)
		if err != nil {
			return err
		}
		if err := v.CheckGrowth(size); err != nil {
			return err
		}
		if err := p.unused(v); err != nil {
			return err
		}
		if size > v.Size {
			if p.full {
				return seedbed.Errorf(seedbed.ErrFull, "pool %s is full", p.name)
			}
			v.made, v.Size = cmp.Or(v.made, v.Size), size
			p.volumes[name] = *v
		}
		info = v.VolumeInfo
		return nil
	})
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return info, nil
}

// had reports whether the volume has that size, or had it before it grew.
func (v *volume) had(size seedbed.Bytes) bool {
	return size == v.Size || v.made != 0 && size >= v.made && size < v.Size
}

// ResizeDisk implements worker.DomainResizer.
func (h *Hypervisor) ResizeDisk(ctx context.Context, id seedbed.InstanceID, disk seedbed.Disk, size seedbed.Bytes) error {
	return h.effect(ctx, "ResizeDisk", func() error {
		d, err := h.ours(id)
		if d == nil || err != nil || d.state == seedbed.DomainOff {
			return err
		}
		for _, own := range d.spec.Disks {
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
