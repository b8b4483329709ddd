package plans

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// setPlan changes what an instance's domain is apart from its size, disks and NICs.
func (t *task) setPlan() engine.Plan {
	to := func(pick func(seedbed.HardwareJob) *seedbed.Hardware) func(context.Context) error {
		return func(ctx context.Context) error { return t.setHardware(ctx, pick) }
	}
	return engine.Plan{Stages: []engine.Stage{{Name: "configure",
		Run:  to(func(j seedbed.HardwareJob) *seedbed.Hardware { return j.To }),
		Undo: strict(to(func(j seedbed.HardwareJob) *seedbed.Hardware { return j.Was })),
	}}}
}

// setHardware gives the domain the hardware that pick chooses, and records it with what the guest gets only at its next start.
func (t *task) setHardware(ctx context.Context, pick func(seedbed.HardwareJob) *seedbed.Hardware) error {
	var spec seedbed.HardwareJob
	if err := t.input(&spec); err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	to := pick(spec)
	change, err := t.domainChange(ctx, inst.WithHardware(*to), spec)
	if err != nil {
		return err
	}
	var made effects.DomainChanged
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		made, err = effects.ChangeDomain.Do(ctx, t.Worker(), call, change)
		return err
	})
	if err != nil {
		return fmt.Errorf("change domain %s: %w", t.Job.Subject, err)
	}
	err = t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetHardware(ctx, t.Ref, *to, made.Pending) })
	if err != nil {
		return fmt.Errorf("record the change: %w", err)
	}
	t.Event("info", 100, "domain %s is changed: %s", t.Job.Subject, strings.Join(spec.Changed, ", "))
	if len(made.Pending) > 0 {
		t.Event("warn", 100, "the guest runs, and gets this only when it is started again: %s (seedbed vm reboot)",
			strings.Join(made.Pending, ", "))
	}
	return nil
}

// domainChange returns what is to change of an instance's domain, for the instance as it is to be.
func (t *task) domainChange(ctx context.Context, next seedbed.Instance, spec seedbed.HardwareJob) (c seedbed.DomainChange, err error) {
	s, changes := next.System, func(name string) bool { return slices.Contains(spec.Changed, name) }
	c = seedbed.DomainChange{ID: next.ID, Force: spec.Set.Force}
	if changes("cdrom") {
		if c.Drive, err = t.drive(ctx, next); err != nil {
			return c, err
		}
		if c.Drive == nil {
			c.Drive = &seedbed.CDROMDrive{}
		}
	}
	if changes("boot_from") {
		from := s.BootFrom
		if from == "" {
			from = seedbed.BootDisk
		}
		c.BootFrom = &from
		if at := seedbed.NICAt(next.NICs, 0); at >= 0 {
			c.BootMAC = next.NICs[at].MAC
		}
	}
	if changes("serial") {
		c.Serial = &s.Serial
	}
	if changes("vnc") || changes("vnc_bind") {
		c.VNC, c.VNCBind = &s.VNC, s.VNCBind
	}
	if changes("autostart") {
		c.Autostart = &s.Autostart
	}
	return c, nil
}

// drive returns the CD-ROM drive of an instance for ISO images; nil if it needs none.
func (t *task) drive(ctx context.Context, inst seedbed.Instance) (*seedbed.CDROMDrive, error) {
	if inst.CDROM == "" {
		if inst.System.BootFrom == seedbed.BootCDROM {
			return &seedbed.CDROMDrive{}, nil
		}
		return nil, nil
	}
	image, err := t.store.Image(ctx, inst.CDROM)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", inst.CDROM, engine.FromStore(err))
	}
	disk, err := effects.ImageDisk.Ask(ctx, t.Worker(), effects.ImageRef{Pool: image.Pool, Name: image.Name})
	if err != nil {
		return nil, fmt.Errorf("image %s for the CD-ROM drive: %w", inst.CDROM, err)
	}
	return &seedbed.CDROMDrive{Disk: &disk}, nil
}

// setAutostart has the domain of an instance that starts with its node do that on a node, or not. A domain does so on at most one node.
func (t *task) setAutostart(ctx context.Context, node string, on bool) error {
	inst, err := t.Instance(ctx)
	if err != nil || !inst.System.Autostart {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.ChangeDomain.Do(ctx, t.WorkerOf(node), call, seedbed.DomainChange{ID: inst.ID, Autostart: &on})
		return err
	})
	if err != nil {
		return fmt.Errorf("have domain %s start with node %s, or not: %w", inst.Name, node, err)
	}
	return nil
}
