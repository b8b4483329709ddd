package drivertest

import (
	"context"
	"slices"
	"testing"

	"seedbed"
	"seedbed/provision/worker"
)

// testResize checks that a volume grows, keeps its properties, and is returned for any size that it
// had.
func testResize(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, info := cloned(t, p)
	want := info
	for _, size := range []seedbed.Bytes{info.Size, 12 * seedbed.MiB, 12 * seedbed.MiB, 16 * seedbed.MiB} {
		want.Size = size
		got, err := p.ResizeVolume(ctx, v.Name, v.Instance, size)
		ok(t, "resize to "+size.String(), err)
		if got != want {
			t.Fatalf("resize to %s: got %+v; want %+v", size, got, want)
		}
	}
	volumes(t, p, want)
	if got, err := p.Volume(ctx, v.Name, v.Instance); err != nil || got != want {
		t.Fatalf("volume: %+v, %v; want %+v", got, err, want)
	}
	for _, had := range []seedbed.Bytes{info.Size, 12 * seedbed.MiB, 16 * seedbed.MiB} {
		v.Size = had
		if got, err := p.CloneVolume(ctx, seedbed.NewJobID(), v); err != nil || got != want {
			t.Errorf("adopt with the size %s: %+v, %v", had, got, err)
		}
	}
	for _, never := range []seedbed.Bytes{info.Size - 512, 16*seedbed.MiB + 512} {
		v.Size = never
		_, err := p.CloneVolume(ctx, seedbed.NewJobID(), v)
		is(t, "adopt with the size "+never.String(), err, seedbed.ErrConflict)
	}
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
}

// testResizeSnapshot checks that a volume with snapshots grows as well.
func testResizeSnapshot(t *testing.T, _ PoolDriver, p worker.Pool) {
	ctx := t.Context()
	_, v, info := cloned(t, p)
	_, err := p.CreateSnapshot(ctx, seedbed.NewJobID(), snapshotOf(v, "s"))
	ok(t, "snapshot", err)
	got, err := p.ResizeVolume(ctx, v.Name, v.Instance, 2*info.Size)
	if err != nil || got.Size != 2*info.Size {
		t.Fatalf("resize: %+v, %v", got, err)
	}
	snapshots(t, p, v, "s")
	ok(t, "remove", p.RemoveVolume(ctx, v.Name, v.Instance))
}

func testResizeRefused(t *testing.T, d PoolDriver, p worker.Pool) {
	_, v, info := cloned(t, p)
	foreign := clone(0)
	untouched := d.Foreign(t, p, foreign.Name)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		what string
		ctx  context.Context
		name string
		id   seedbed.InstanceID
		size seedbed.Bytes
		want error
	}{
		{"smaller", t.Context(), v.Name, v.Instance, info.Size - 512, seedbed.ErrInvalid},
		{"nothing", t.Context(), v.Name, v.Instance, 0, seedbed.ErrInvalid},
		{"absent volume", t.Context(), clone(0).Name, v.Instance, 2 * info.Size, seedbed.ErrNotFound},
		{"other instance", t.Context(), v.Name, seedbed.NewInstanceID(), 2 * info.Size, seedbed.ErrConflict},
		{"volume without the tag", t.Context(), foreign.Name, foreign.Instance, 2 * info.Size, seedbed.ErrConflict},
		{"name that climbs", t.Context(), "../x", v.Instance, 2 * info.Size, seedbed.ErrInvalid},
		{"ended context", ended, v.Name, v.Instance, 2 * info.Size, context.Canceled},
	} {
		_, err := p.ResizeVolume(c.ctx, c.name, c.id, c.size)
		is(t, c.what, err, c.want)
	}
	_, err := p.Volume(t.Context(), v.Name, seedbed.NewInstanceID())
	is(t, "another's volume", err, seedbed.ErrConflict)
	_, err = p.Volume(t.Context(), clone(0).Name, v.Instance)
	is(t, "no volume", err, seedbed.ErrNotFound)
	volumes(t, p, info)
	if !untouched() {
		t.Error("the foreign volume was changed")
	}
}

// testResizeDomain checks that a domain that is off takes another size and starts with it, and that
// only the disks of a running domain can be resized.
func testResizeDomain(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	is(t, "resize what is absent", h.ResizeDomain(ctx, spec.ID, 2, 0), seedbed.ErrNotFound)
	ok(t, "grow a disk of what is absent", h.ResizeDisk(ctx, spec.ID, seedbed.Disk{Type: "file", Source: "/none"}, seedbed.GiB))
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	for range 2 {
		ok(t, "resize", h.ResizeDomain(ctx, spec.ID, spec.VCPUs+1, spec.Memory+64*seedbed.MiB))
	}
	ok(t, "vcpus alone", h.ResizeDomain(ctx, spec.ID, spec.VCPUs, 0))
	ok(t, "grow a disk while it is off", h.ResizeDisk(ctx, spec.ID, seedbed.Disk{Type: "file", Source: "/none"}, seedbed.GiB))
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.Name != spec.Name || got.Job != spec.Job {
		t.Errorf("once resized: %+v, %v", got, err)
	}
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	is(t, "resize while it runs", h.ResizeDomain(ctx, spec.ID, spec.VCPUs, spec.Memory), seedbed.ErrInUse)
	ok(t, "the size that it has", h.ResizeDomain(ctx, spec.ID, spec.VCPUs, spec.Memory+64*seedbed.MiB))
	ok(t, "grow a disk that it has not", h.ResizeDisk(ctx, spec.ID, seedbed.Disk{Type: "file", Source: "/none"}, seedbed.GiB))

	other := d.Spec(t)
	d.Foreign(t, other.ID, other.Name)
	is(t, "resize another's", h.ResizeDomain(ctx, other.ID, 2, 0), seedbed.ErrConflict)
	is(t, "grow another's disk", h.ResizeDisk(ctx, other.ID, seedbed.Disk{Type: "file", Source: "/none"}, seedbed.GiB), seedbed.ErrConflict)
}

// testAttach checks that volumes are attached to a domain that is off, and taken from it, each as often as it is asked.
func testAttach(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	one := seedbed.AttachedDisk{Disk: seedbed.Disk{Type: "file", Source: "/none/a.raw", Format: "raw"}, Serial: "0123456789abcdef0123",
		Bus: seedbed.BusVirtio, Device: "vdq"}
	other := one
	other.Source, other.Serial, other.Bus, other.Device = "/none/b.raw", "0123456789abcdef0124", seedbed.BusSCSI, "sdq"
	is(t, "attach to what is absent", h.AttachDisk(ctx, spec.ID, one), seedbed.ErrNotFound)
	ok(t, "detach from what is absent", h.DetachDisk(ctx, spec.ID, one.Serial))
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	for range 2 {
		ok(t, "attach", h.AttachDisk(ctx, spec.ID, one))
		ok(t, "attach on the other bus", h.AttachDisk(ctx, spec.ID, other))
	}
	for range 2 {
		ok(t, "limit", h.LimitDisk(ctx, spec.ID, one.Serial, seedbed.IOLimits{IOPS: 500, ReadBandwidth: seedbed.MiB}))
	}
	ok(t, "limit otherwise", h.LimitDisk(ctx, spec.ID, one.Serial, seedbed.IOLimits{ReadIOPS: 100, WriteIOPS: 50, Bandwidth: seedbed.MiB}))
	ok(t, "lift the limits", h.LimitDisk(ctx, spec.ID, one.Serial, seedbed.IOLimits{}))
	ok(t, "limit what is not attached", h.LimitDisk(ctx, spec.ID, "0123456789abcdef0199", seedbed.IOLimits{IOPS: 500}))
	ok(t, "limit a disk of what is absent", h.LimitDisk(ctx, seedbed.NewInstanceID(), one.Serial, seedbed.IOLimits{IOPS: 500}))
	taken := one
	taken.Serial = "0123456789abcdef0125"
	is(t, "a name that is taken", h.AttachDisk(ctx, spec.ID, taken), seedbed.ErrConflict)
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.Name != spec.Name || got.Job != spec.Job {
		t.Errorf("once attached: %+v, %v", got, err)
	}
	for range 2 {
		ok(t, "detach", h.DetachDisk(ctx, spec.ID, one.Serial))
	}
	ok(t, "the name is free", h.AttachDisk(ctx, spec.ID, taken))
	ok(t, "detach", h.DetachDisk(ctx, spec.ID, taken.Serial))
	ok(t, "detach from the other bus", h.DetachDisk(ctx, spec.ID, other.Serial))
	ok(t, "start without them", h.StartDomain(ctx, spec.ID))

	foreign := d.Spec(t)
	d.Foreign(t, foreign.ID, foreign.Name)
	is(t, "attach to another's", h.AttachDisk(ctx, foreign.ID, one), seedbed.ErrConflict)
	is(t, "limit another's", h.LimitDisk(ctx, foreign.ID, one.Serial, seedbed.IOLimits{IOPS: 500}), seedbed.ErrConflict)
	is(t, "detach from another's", h.DetachDisk(ctx, foreign.ID, one.Serial), seedbed.ErrConflict)
}

// testAttachNIC checks that NICs are attached to a domain that is off, and taken from it, each as often as it is asked.
func testAttachNIC(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	one := seedbed.DomainNIC{Tap: "sb9001", MAC: seedbed.NewMAC(), Bridge: "sbnone"}
	is(t, "attach to what is absent", h.AttachNIC(ctx, spec.ID, one), seedbed.ErrNotFound)
	ok(t, "detach from what is absent", h.DetachNIC(ctx, spec.ID, one.MAC))
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	for range 2 {
		ok(t, "attach", h.AttachNIC(ctx, spec.ID, one))
	}
	moved := one
	moved.Bridge = "sbother"
	is(t, "the same MAC address at another bridge", h.AttachNIC(ctx, spec.ID, moved), seedbed.ErrConflict)
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.Name != spec.Name || got.Job != spec.Job {
		t.Errorf("once attached: %+v, %v", got, err)
	}
	for range 2 {
		ok(t, "detach", h.DetachNIC(ctx, spec.ID, one.MAC))
	}
	ok(t, "attach at the other bridge", h.AttachNIC(ctx, spec.ID, moved))
	ok(t, "detach", h.DetachNIC(ctx, spec.ID, moved.MAC))
	ok(t, "start without them", h.StartDomain(ctx, spec.ID))

	foreign := d.Spec(t)
	d.Foreign(t, foreign.ID, foreign.Name)
	is(t, "attach to another's", h.AttachNIC(ctx, foreign.ID, one), seedbed.ErrConflict)
	is(t, "detach from another's", h.DetachNIC(ctx, foreign.ID, one.MAC), seedbed.ErrConflict)
}

// testChange checks that what a domain boots from, its CD-ROM drive, console and screen change, each as often as it is asked.
func testChange(t *testing.T, d HypervisorDriver) {
	ctx, h, spec := t.Context(), d.Open(t), d.Spec(t)
	disc := func(name string) *seedbed.CDROMDrive {
		return &seedbed.CDROMDrive{Disk: &seedbed.Disk{Type: "file", Source: "/none/" + name + ".qcow2", Format: "qcow2"}}
	}
	yes, no, disk, cdrom, network := true, false, seedbed.BootDisk, seedbed.BootCDROM, seedbed.BootNetwork
	change := func(c seedbed.DomainChange) error {
		c.ID = spec.ID
		pending, err := h.ChangeDomain(ctx, c)
		if len(pending) > 0 {
			t.Errorf("a domain that is off gets %v later", pending)
		}
		return err
	}
	is(t, "change what is absent", change(seedbed.DomainChange{BootFrom: &cdrom}), seedbed.ErrNotFound)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	for range 2 {
		ok(t, "insert", change(seedbed.DomainChange{Drive: disc("a")}))
		ok(t, "insert another", change(seedbed.DomainChange{Drive: disc("b"), Force: true}))
		ok(t, "boot from it", change(seedbed.DomainChange{BootFrom: &cdrom}))
		ok(t, "eject", change(seedbed.DomainChange{Drive: &seedbed.CDROMDrive{}}))
		ok(t, "boot from the disk", change(seedbed.DomainChange{BootFrom: &disk}))
		ok(t, "a screen", change(seedbed.DomainChange{VNC: &yes, VNCBind: "127.0.0.2"}))
		ok(t, "a screen elsewhere, and no console", change(seedbed.DomainChange{VNC: &yes, Serial: &no}))
		ok(t, "no screen, and a console", change(seedbed.DomainChange{VNC: &no, Serial: &yes}))
	}
	is(t, "boot from a NIC that is not there", change(seedbed.DomainChange{BootFrom: &network, BootMAC: seedbed.NewMAC()}),
		seedbed.ErrConflict)
	if got, err := h.DomainState(ctx, spec.ID); err != nil || got.Name != spec.Name || got.Job != spec.Job {
		t.Errorf("once changed: %+v, %v", got, err)
	}
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	pending, err := h.ChangeDomain(ctx, seedbed.DomainChange{ID: spec.ID, BootFrom: &cdrom})
	if err != nil || !slices.Equal(pending, []string{"boot_from"}) {
		t.Errorf("change a domain that runs: it gets %v later, %v", pending, err)
	}

	foreign := d.Spec(t)
	d.Foreign(t, foreign.ID, foreign.Name)
	_, err = h.ChangeDomain(ctx, seedbed.DomainChange{ID: foreign.ID, BootFrom: &cdrom})
	is(t, "change another's", err, seedbed.ErrConflict)
}

// testRename checks that a domain that is off gets another name and the former one again, each as often as it is asked.
func testRename(t *testing.T, d HypervisorDriver) {
	ctx, h, spec, other, foreign := t.Context(), d.Open(t), d.Spec(t), d.Spec(t), d.Spec(t)
	to := spec.Name + "-b"
	is(t, "rename what is absent", h.RenameDomain(ctx, spec.ID, to), seedbed.ErrNotFound)
	ok(t, "define", h.DefineDomain(ctx, spec))
	defer undefine(t, h, spec.ID)
	ok(t, "define another", h.DefineDomain(ctx, other))
	defer undefine(t, h, other.ID)
	named := func(want string) {
		t.Helper()
		if got, err := h.DomainState(ctx, spec.ID); err != nil || got.Name != want || got.Job != spec.Job {
			t.Errorf("renamed: %+v, %v; want the name %s", got, err, want)
		}
	}
	for range 2 {
		ok(t, "rename", h.RenameDomain(ctx, spec.ID, to))
		named(to)
	}
	is(t, "take another's name", h.RenameDomain(ctx, spec.ID, other.Name), seedbed.ErrConflict)
	for range 2 {
		ok(t, "rename back", h.RenameDomain(ctx, spec.ID, spec.Name))
	}
	named(spec.Name)
	ok(t, "rename again", h.RenameDomain(ctx, spec.ID, to))
	ok(t, "start", h.StartDomain(ctx, spec.ID))
	ok(t, "the name that it has", h.RenameDomain(ctx, spec.ID, to))
	is(t, "rename while it runs", h.RenameDomain(ctx, spec.ID, spec.Name), seedbed.ErrInUse)
	named(to)

	d.Foreign(t, foreign.ID, foreign.Name)
	is(t, "rename another's", h.RenameDomain(ctx, foreign.ID, foreign.Name+"-b"), seedbed.ErrConflict)
}
