package provision

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/cleanup"
)

// onVolume returns the job of an action on a volume.
func (l *lab) onVolume(action, name string, order seedbed.VolumeOrder) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Submit(l.t.Context(), seedbed.Request{Action: action, Name: name, Volume: order, JobOptions: usual}, nil))
}

// refusedVolume returns why an action on a volume is not accepted.
func (l *lab) refusedVolume(action, name string) error {
	_, err := l.intake.Submit(l.t.Context(), seedbed.Request{Action: action, Name: name, JobOptions: usual}, nil)
	return err
}

func (l *lab) addVolume(name string) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeAdd, name, seedbed.VolumeOrder{Add: seedbed.VolumeRequest{Pool: "default", Size: 8 * seedbed.MiB}})
}

// copyVolume returns the job that makes a copy of a volume.
func (l *lab) copyVolume(from, name string) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeAdd, name, seedbed.VolumeOrder{Add: seedbed.VolumeRequest{From: from, Size: 16 * seedbed.MiB}})
}

// copied checks a volume of 16 MiB that is a copy of the disk of an instance, which has no snapshot left.
func (l *lab) copied(inst seedbed.Instance, name string) {
	l.t.Helper()
	l.hasVolume(name, seedbed.VolumeFree, "")
	l.snapshots(inst)
	v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.ok(err)
	if v.Size != 16*seedbed.MiB || v.Image != "" || v.Pool != "default" || v.Node != inst.Node {
		l.t.Errorf("the copy is %+v", v)
	}
	if from := l.pool.CopyOf(v.Volume); from != inst.Volumes[0].Name {
		l.t.Errorf("it is a copy of %q; want %q", from, inst.Volumes[0].Name)
	}
}

func (l *lab) attach(volume, to string) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeAttach, volume, seedbed.VolumeOrder{Attach: seedbed.Attachment{Instance: to}})
}

func (l *lab) resizeVolume(name string, size seedbed.Bytes) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeResize, name, seedbed.VolumeOrder{Resize: seedbed.VolumeResize{Size: size}})
}

// volumeHasSize is hasVolume for a volume that is to have a size, of which the guest of a running holder was told.
func (l *lab) volumeHasSize(name string, size seedbed.Bytes, holder string) {
	l.t.Helper()
	state := seedbed.VolumeFree
	if holder != "" {
		state = seedbed.VolumeAttached
	}
	l.hasVolume(name, state, holder)
	v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.ok(err)
	if v.Size != size || v.Wanted != 0 {
		l.t.Errorf("volume %s has %s, and is to have %s; want %s", name, v.Size, v.Wanted, size)
	}
	info, err := l.pool.Volume(l.t.Context(), v.Volume, v.Owner)
	l.ok(err)
	told := l.hv.Told(v.Instance, info.Disk.Source)
	if untold := told == 0 && size == 8*seedbed.MiB; holder != "" && told != size && !untold {
		l.t.Errorf("the guest of %s was told that volume %s has %s; want %s", holder, name, told, size)
	}
}

var someLimits = seedbed.IOLimits{IOPS: 500, WriteBandwidth: seedbed.MiB}

func (l *lab) limitVolume(name string) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeSet, name, seedbed.VolumeOrder{Set: someLimits.Whole()})
}

// volumeHasLimits is hasVolume for a volume that is to have limits, in the domain that has it as well.
func (l *lab) volumeHasLimits(name string, want seedbed.IOLimits, holder string) {
	l.t.Helper()
	state := seedbed.VolumeFree
	if holder != "" {
		state = seedbed.VolumeAttached
	}
	l.hasVolume(name, state, holder)
	v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.ok(err)
	if v.IOLimits != want {
		l.t.Errorf("volume %s has the limits %s; want %s", name, v.IOLimits, want)
	}
	spec, _ := l.hv.Spec(v.Instance)
	for _, a := range spec.Attached {
		if a.Serial == v.Serial && a.Limits != want {
			l.t.Errorf("domain %s has the limits %s for volume %s; want %s", holder, a.Limits, name, want)
		}
	}
}

// TestLimitsStay checks that a volume keeps its limits when it is detached, attached again, and its instance rebuilt.
func TestLimitsStay(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	l.runUntil(l.limitVolume("data"), seedbed.JobSucceeded)
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	l.volumeHasLimits("data", someLimits, "web1")
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	l.volumeHasLimits("data", someLimits, "web1")
	l.runUntil(l.onVolume(seedbed.DoVolumeDetach, "data", seedbed.VolumeOrder{}), seedbed.JobSucceeded)
	l.volumeHasLimits("data", someLimits, "")
}

// hasVolume checks that the database, the pool, the domains and what guests are served agree about a volume.
func (l *lab) hasVolume(name string, state seedbed.VolumeState, holder string) {
	l.t.Helper()
	ctx := l.t.Context()
	v, err := l.db.ProjectVolume(ctx, seedbed.DefaultProject, name)
	l.ok(err)
	if v.State != state || v.Holder != holder {
		l.t.Errorf("volume %s is %s at %q; want %s at %q", name, v.State, v.Holder, state, holder)
	}
	if info, err := l.pool.Volume(ctx, v.Volume, v.Owner); err != nil || info.Size != v.Size {
		l.t.Errorf("in the pool: %+v, %v", info, err)
	}
	all, err := l.db.Instances(ctx)
	l.ok(err)
	for _, i := range all {
		spec, _ := l.hv.Spec(i.ID)
		has := slices.ContainsFunc(spec.Attached, func(a seedbed.AttachedDisk) bool { return a.Serial == v.Serial })
		if has != (i.Name == holder) || len(spec.Disks) != len(i.Volumes) {
			l.t.Errorf("domain %s has the disks %v and %v", i.Name, spec.Disks, spec.Attached)
		}
		want := []seedbed.GuestDisk{{Device: "vda", Size: i.Volumes[0].Size}}
		if i.Name == holder {
			want = append(want, seedbed.GuestDisk{Device: "vdb", Size: v.Size, Attached: true})
		}
		if d := cmp.Diff(want, l.disksServed(i.ID)); d != "" {
			l.t.Errorf("the disks that %s is told of (-want +got):\n%s", i.Name, d)
		}
	}
}

// disksServed returns the disks that a guest is served.
func (l *lab) disksServed(id seedbed.InstanceID) (disks []seedbed.GuestDisk) {
	l.t.Helper()
	page, err := l.db.FeedPage(l.t.Context(), testNode, 0, "")
	l.ok(err)
	for _, c := range feedtest.Changes(l.t, page) {
		if c.Guest != nil && c.Guest.ID == id {
			disks = c.Guest.Disks
		}
	}
	return disks
}

// noVolume checks that neither the database nor the pool has a volume of a project. The pool has only disks of instances.
func (l *lab) noVolume(name string, disks ...seedbed.Volume) {
	l.t.Helper()
	_, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.want("the volume", err, seedbed.ErrNotFound)
	there, err := l.pool.Volumes(l.t.Context())
	l.ok(err)
	if len(there) != len(disks) {
		l.t.Errorf("in the pool are %v, want %d disks of instances", there, len(disks))
	}
}

// TestAttachedVolumeStays checks that a volume outlives the disks of its instance: a rebuild, and the removal of the instance.
func TestAttachedVolumeStays(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	for _, name := range []string{"data", "scratch"} {
		l.runUntil(l.addVolume(name), seedbed.JobSucceeded)
	}
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	l.runUntil(l.ask(seedbed.DoRebuild, nil), seedbed.JobSucceeded)
	l.hasVolume("data", seedbed.VolumeAttached, "web1")
	keep := false
	l.runUntil(l.onVolume(seedbed.DoVolumeAttach, "scratch",
		seedbed.VolumeOrder{Attach: seedbed.Attachment{Instance: "web1", Bus: seedbed.BusSCSI, Keep: &keep}}), seedbed.JobSucceeded)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.hasVolume("data", seedbed.VolumeFree, "")
	_, err := l.db.ProjectVolume(t.Context(), seedbed.DefaultProject, "scratch")
	l.want("the volume that is not kept", err, seedbed.ErrNotFound)
	there, err := l.pool.Volumes(t.Context())
	l.ok(err)
	if len(there) != 1 {
		t.Errorf("in the pool are %v", there)
	}
}

// TestDeafGuestKeepsVolume checks that a volume stays attached if the guest does not let go of it.
func TestDeafGuestKeepsVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	l.hv.SetDeaf(inst.ID, true)
	to := seedbed.VolumeOrder{Attach: seedbed.Attachment{Instance: "web1"}}
	l.runUntil(l.onVolume(seedbed.DoVolumeDetach, "data", to), seedbed.JobRolledBack)
	l.hasVolume("data", seedbed.VolumeAttached, "web1")
	l.want("remove it", l.refusedVolume(seedbed.DoVolumeRemove, "data"), seedbed.ErrInUse)
	l.want("detach the root disk", l.refusedVolume(seedbed.DoVolumeDetach, inst.Volumes[0].Name), seedbed.ErrConflict)
}

// TestKeptDisksAreNoStrays checks that the cleanup knows the disks that have outlived their instance, and that they can be attached.
func TestKeptDisksAreNoStrays(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	first := l.made()
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	keeping := seedbed.Request{Action: "remove", Name: "web1", KeepDisks: true}
	l.runUntil(l.job(l.intake.Submit(t.Context(), keeping, nil)), seedbed.JobSucceeded)
	if k, err := l.db.ProjectVolume(t.Context(), seedbed.DefaultProject, "web1-0"); err != nil || k.Owner != first.ID {
		t.Fatalf("the disk: %+v, %v", k, err)
	}
	cleaner := cleanup.New(cleanup.Config{}, l.db, sighted{alone{l.host}})
	for range 3 {
		report, err := cleaner.Run(t.Context(), cleanup.Options{})
		if err != nil || report.Refused != "" {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	strays, err := l.db.Strays(t.Context())
	if err != nil || len(strays) != 0 {
		t.Errorf("strays %+v, %v", strays, err)
	}
	l.made()
	l.runUntil(l.attach("web1-0", "web1"), seedbed.JobSucceeded)
	l.hasVolume("web1-0", seedbed.VolumeAttached, "web1")
}

// TestAttachIsNotContinuedElsewhere checks that a job does not continue once another instance has its volume.
func TestAttachIsNotContinuedElsewhere(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.made()
	l.runUntil(l.createWith("web2", usual), seedbed.JobSucceeded)
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	l.refuse("AttachDisk", 1)
	first := l.job(l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoVolumeAttach, Name: "data", JobOptions: keeping(),
		Volume: seedbed.VolumeOrder{Attach: seedbed.Attachment{Instance: "web1"}}}, nil))
	l.runUntil(first, seedbed.JobFailed)
	l.runUntil(l.onVolume(seedbed.DoVolumeDetach, "data", seedbed.VolumeOrder{}), seedbed.JobSucceeded)
	l.runUntil(l.attach("data", "web2"), seedbed.JobSucceeded)
	_, err := l.db.ResumeJob(t.Context(), first)
	l.want("continue", err, seedbed.ErrConflict)
	l.hasVolume("data", seedbed.VolumeAttached, "web2")
}

// TestCopiedVolumeStays checks that what is copied is not removed or attached in the meantime, and that the copy needs it no longer.
func TestCopiedVolumeStays(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	id := l.copyVolume("data", "copy")
	l.want("remove what is copied", l.refusedVolume(seedbed.DoVolumeRemove, "data"), seedbed.ErrInUse)
	l.runUntil(id, seedbed.JobSucceeded)
	l.runUntil(l.onVolume(seedbed.DoVolumeRemove, "data", seedbed.VolumeOrder{}), seedbed.JobSucceeded)
	l.hasVolume("copy", seedbed.VolumeFree, "")
	for from, want := range map[string]error{
		"none": seedbed.ErrNotFound, "none:0": seedbed.ErrNotFound, "web1:7": seedbed.ErrNotFound, "../x": seedbed.ErrInvalid,
	} {
		_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoVolumeAdd, Name: "other",
			Volume: seedbed.VolumeOrder{Add: seedbed.VolumeRequest{From: from}}, JobOptions: usual}, nil)
		l.want("a copy of "+from, err, want)
	}
	for what, add := range map[string]seedbed.VolumeRequest{
		"a smaller one": {From: "copy", Size: seedbed.MiB}, "an image": {From: "copy", Image: "debian"},
	} {
		_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoVolumeAdd, Name: "other",
			Volume: seedbed.VolumeOrder{Add: add}, JobOptions: usual}, nil)
		l.want(what, err, seedbed.ErrInvalid)
	}
	l.runUntil(l.copyVolume(inst.Volumes[0].Name, "disk"), seedbed.JobSucceeded)
	l.copied(inst, "disk")
}
