package drivertest

import (
	"cmp"
	"context"
	"slices"

	"seedbed"
)

// ChangeDomain implements worker.DomainChanger. A deaf guest has locked its CD-ROM drive.
func (h *Hypervisor) ChangeDomain(ctx context.Context, c seedbed.DomainChange) (pending []string, err error) {
	err = h.effect(ctx, "ChangeDomain", func() error {
		d, err := h.ours(c.ID)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", c.ID)
		}
		if d.spec, err = changed(d.spec, c); err != nil {
			return err
		}
		if d.state != seedbed.DomainRunning && d.state != seedbed.DomainPaused {
			return nil
		}
		if c.Drive != nil && d.live.Drive != nil && !sameDrive(d.live.Drive, c.Drive) {
			if d.deaf && !c.Force {
				return seedbed.Errorf(seedbed.ErrInUse, "the guest of domain %s has locked its CD-ROM drive", d.spec.Name)
			}
			d.live.Drive = c.Drive
		}
		pending = differing(d.live, c)
		return nil
	})
	return pending, err
}

// changed returns a spec as c changes it.
func changed(s seedbed.DomainSpec, c seedbed.DomainChange) (seedbed.DomainSpec, error) {
	system := seedbed.System{Serial: true}
	if s.System != nil {
		system = *s.System
	}
	if c.Drive != nil && (s.Drive != nil || c.Drive.Disk != nil) {
		s.Drive = c.Drive
	}
	if c.BootFrom != nil {
		system.BootFrom = seedbed.BootsFrom(*c.BootFrom)
		s.NICs = slices.Clone(s.NICs)
		at := -1
		for n := range s.NICs {
			if s.NICs[n].Boot = system.BootFrom == seedbed.BootNetwork && s.NICs[n].MAC == c.BootMAC; s.NICs[n].Boot {
				at = n
			}
		}
		switch {
		case system.BootFrom == seedbed.BootNetwork && at < 0:
			return s, seedbed.Errorf(seedbed.ErrConflict, "domain %s has no NIC with the MAC address %s", s.Name, c.BootMAC)
		case system.BootFrom == seedbed.BootCDROM && s.Drive == nil:
			s.Drive = &seedbed.CDROMDrive{}
		}
	}
	if c.Serial != nil {
		system.Serial = *c.Serial
	}
	if c.VNC != nil {
		system.VNC, system.VNCBind = *c.VNC, c.VNCBind
	}
	if c.Autostart != nil {
		system.Autostart = *c.Autostart
	}
	s.System = &system
	return s, nil
}

func sameDrive(a, b *seedbed.CDROMDrive) bool {
	source := func(d *seedbed.CDROMDrive) string {
		if d == nil || d.Disk == nil {
			return ""
		}
		return d.Disk.Source
	}
	return source(a) == source(b)
}

// differing names what a running domain does not have as c says.
func differing(live seedbed.DomainSpec, c seedbed.DomainChange) (names []string) {
	system := seedbed.System{Serial: true}
	if live.System != nil {
		system = *live.System
	}
	add := func(name string, differs bool) {
		if differs {
			names = append(names, name)
		}
	}
	add("cdrom", c.Drive != nil && !sameDrive(live.Drive, c.Drive))
	add("boot_from", c.BootFrom != nil && system.BootFrom != seedbed.BootsFrom(*c.BootFrom))
	add("serial", c.Serial != nil && system.Serial != *c.Serial)
	add("vnc", c.VNC != nil && system.VNC != *c.VNC)
	add("vnc_bind", c.VNC != nil && *c.VNC && system.VNC &&
		cmp.Or(system.VNCBind, "127.0.0.1") != cmp.Or(c.VNCBind, "127.0.0.1"))
	return names
}

// Live returns a domain as its guest has it since it was started.
func (h *Hypervisor) Live(id seedbed.InstanceID) seedbed.DomainSpec {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := h.domains[id]; ok {
		return d.live
	}
	return seedbed.DomainSpec{}
}

// RenameDomain implements worker.DomainChanger.
func (h *Hypervisor) RenameDomain(ctx context.Context, id seedbed.InstanceID, name string) error {
	return h.effect(ctx, "RenameDomain", func() error {
		d, err := h.ours(id)
		switch {
		case err != nil:
			return err
		case d == nil:
			return seedbed.Errorf(seedbed.ErrNotFound, "domain %s is not defined", id)
		case d.spec.Name == name:
			return nil
		case d.state != seedbed.DomainOff:
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s runs: shut it down first", d.spec.Name)
		}
		for _, other := range h.domains {
			if other.spec.Name == name {
				return seedbed.Errorf(seedbed.ErrConflict, "another domain has the name %s", name)
			}
		}
		d.spec.Name = name
		return nil
	})
}

// UndefineDomain implements worker.Definer.
func (h *Hypervisor) UndefineDomain(ctx context.Context, id seedbed.InstanceID) error {
	return h.undefine(ctx, "UndefineDomain", id, func() { delete(h.states, id) })
}

// UndefineKept implements worker.Definer.
func (h *Hypervisor) UndefineKept(ctx context.Context, id seedbed.InstanceID) error {
	return h.undefine(ctx, "UndefineKept", id, func() {})
}

func (h *Hypervisor) undefine(ctx context.Context, name string, id seedbed.InstanceID, then func()) error {
	return h.effect(ctx, name, func() error {
		d, err := h.ours(id)
		if err != nil {
			return err
		}
		if d != nil && d.state == seedbed.DomainRunning {
			return seedbed.Errorf(seedbed.ErrInUse, "domain %s runs: destroy it first", d.spec.Name)
		}
		delete(h.seeds, id)
		if d != nil {
			h.drop(id)
		}
		then()
		return nil
	})
}

// FirmwareState returns the number of the state that the firmware and the TPM of a domain have; 0 for none.
func (h *Hypervisor) FirmwareState(id seedbed.InstanceID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.states[id]
}
