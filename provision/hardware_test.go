package provision

import (
	"slices"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// importISO makes an image that a CD-ROM drive takes.
func (l *lab) importISO(name string) {
	l.t.Helper()
	l.runUntil(l.job(l.intake.Import(l.t.Context(), name, "default", seedbed.ImportSpec{Path: drivertest.ISOFile(l.t)}, usual)),
		seedbed.JobSucceeded)
}

func (l *lab) set(change seedbed.HardwareChange) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Set(l.t.Context(), seedbed.InDefault("web1"), change, usual))
}

// hasDrive checks what is recorded to be in the CD-ROM drive of an instance, and what its firmware tries first, and that its domain is so.
func (l *lab) hasDrive(id seedbed.InstanceID, image, from string) {
	l.t.Helper()
	inst, err := l.db.Instance(l.t.Context(), id)
	l.ok(err)
	spec, _ := l.hv.Spec(id)
	in, boots := "", ""
	if spec.Drive != nil && spec.Drive.Disk != nil {
		in = spec.Drive.Disk.Source
	}
	if spec.System != nil {
		boots = spec.System.BootFrom
	}
	if inst.CDROM != image || !strings.HasSuffix(in, image) || (in == "") != (image == "") || inst.System.BootFrom != from || boots != from {
		l.t.Errorf("in the drive is %q, it boots from %q; the domain has %q and boots from %q; want %q and %q", inst.CDROM,
			inst.System.BootFrom, in, boots, image, from)
	}
}

// pending checks what a guest gets only when it is started again.
func (l *lab) pending(want ...string) {
	l.t.Helper()
	if got := l.byName("web1").Pending; !slices.Equal(got, want) {
		l.t.Errorf("pending is %v; want %v", got, want)
	}
}

// TestDrive goes the way of an ISO image: an installation to a blank disk, a boot from that, another image while the guest runs, and
// a rebuild. The image cannot be removed while it is in a drive.
func TestDrive(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.importISO("disc")
	l.importISO("second")
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web1", Network: "default",
		Params: map[string]any{"cdrom": "disc", "boot_from": "cdrom", "disk": "8MiB"}}, nil)), seedbed.JobSucceeded)
	inst := l.byName("web1")
	if len(inst.Volumes) != 1 || inst.Volumes[0].Image != "" || inst.Volumes[0].Size != 8*seedbed.MiB || inst.Ready != seedbed.ReadyStarted {
		t.Errorf("volumes %+v, ready %s", inst.Volumes, inst.Ready)
	}
	l.hasDrive(inst.ID, "disc", seedbed.BootCDROM)
	inUse := func(image string) {
		t.Helper()
		_, err := l.intake.RemoveImage(ctx, image, usual)
		l.want("remove "+image, err, seedbed.ErrInUse)
	}
	inUse("disc")

	from := seedbed.BootDisk
	l.runUntil(l.set(seedbed.HardwareChange{BootFrom: &from}), seedbed.JobSucceeded)
	l.hasDrive(inst.ID, "disc", "")
	l.pending("boot_from")
	if got := l.hv.Live(inst.ID).System.BootFrom; got != seedbed.BootCDROM {
		t.Errorf("the guest that runs boots from %q", got)
	}
	l.runUntil(l.set(seedbed.HardwareChange{CDROM: new("second")}), seedbed.JobSucceeded)
	l.hasDrive(inst.ID, "second", "")
	l.pending("boot_from")
	if got := l.hv.Live(inst.ID).Drive.Disk.Source; !strings.HasSuffix(got, "second") {
		t.Errorf("the guest that runs has %q in its drive", got)
	}
	inUse("second")
	l.runUntil(l.job(l.intake.RemoveImage(ctx, "disc", usual)), seedbed.JobSucceeded)
	l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobSucceeded)
	l.pending()
	if got := l.hv.Live(inst.ID).System.BootFrom; got != "" {
		t.Errorf("the guest boots from %q", got)
	}

	yes := true
	l.runUntil(l.set(seedbed.HardwareChange{VNC: &yes, Autostart: &yes}), seedbed.JobSucceeded)
	l.pending("vnc")
	_, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Params: map[string]any{"cdrom": "second"}}, nil)
	l.want("a rebuild with another image", err, seedbed.ErrInvalid)
	l.runUntil(l.job(l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoRebuild, Name: "web1", Image: "debian"}, nil)),
		seedbed.JobSucceeded)
	l.hasDrive(inst.ID, "second", "")
	l.pending()
	if now := l.byName("web1"); !now.System.VNC || !now.System.Autostart || now.Image != "debian" {
		t.Errorf("after the rebuild it is %+v", now.System)
	}
	l.runUntil(l.set(seedbed.HardwareChange{CDROM: new(string)}), seedbed.JobSucceeded)
	l.hasDrive(inst.ID, "", "")
	l.runUntil(l.job(l.intake.RemoveImage(ctx, "second", usual)), seedbed.JobSucceeded)
}

// TestDriveRefused checks what a CD-ROM drive does not take, and that a guest which has locked it keeps what is in it.
func TestDriveRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	ctx := t.Context()
	l.importISO("disc")
	inst := l.made()
	network, wrong, yes := seedbed.BootNetwork, "floppy", true
	for want, change := range map[string]seedbed.HardwareChange{
		"is in raw format":                 {CDROM: new("debian")},
		`image "none" does not exist`:      {CDROM: new("none")},
		"the instance has that already":    {CDROM: new(string)},
		"force is only for":                {BootFrom: &network, Force: true},
		`boot_from "floppy" is unknown`:    {BootFrom: &wrong},
		"vnc_bind is":                      {VNC: &yes, VNCBind: &wrong},
		"vnc_bind is the address":          {VNCBind: new("127.0.0.2")},
		"expected a change of cdrom, boot": {},
	} {
		_, err := l.intake.Set(ctx, inst.FullName(), change, usual)
		if l.want(want, err, seedbed.ErrInvalid); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
		p, err := l.intake.PlanSet(ctx, inst.FullName(), change)
		if l.ok(err); len(p.Problems) != 1 || !strings.Contains(p.Problems[0], want) {
			t.Errorf("the dry run says %v, %v; want %s", p.Problems, err, want)
		}
	}
	_, err := l.intake.Submit(ctx, seedbed.Request{Action: seedbed.DoCreate, Name: "web2", Params: map[string]any{"cdrom": "debian"}}, nil)
	l.want("a create with another format", err, seedbed.ErrInvalid)

	p, err := l.intake.PlanSet(ctx, inst.FullName(), seedbed.HardwareChange{CDROM: new("disc"), BootFrom: &network, Autostart: &yes})
	if l.ok(err); len(p.Problems) > 0 || !slices.Contains(p.Notes, "boot_from changes, for the guest at its next start") ||
		!slices.Contains(p.Notes, "autostart changes, for the guest at once") {
		t.Errorf("the dry run says %v, %v", p.Problems, p.Notes)
	}
	l.runUntil(l.set(seedbed.HardwareChange{CDROM: new("disc")}), seedbed.JobSucceeded)
	l.pending("cdrom")
	l.runUntil(l.ask(seedbed.DoReboot, nil), seedbed.JobSucceeded)
	l.pending()
	l.hv.SetDeaf(inst.ID, true)
	l.runUntil(l.set(seedbed.HardwareChange{CDROM: new(string)}), seedbed.JobRolledBack)
	l.hasDrive(inst.ID, "disc", "")
	l.runUntil(l.set(seedbed.HardwareChange{CDROM: new(string), Force: true}), seedbed.JobSucceeded)
	l.hasDrive(inst.ID, "", "")
	l.pending()
}
