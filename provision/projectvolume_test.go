package provision

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/internal/feedtest"
	"seedbed/provision/cleanup"
)

func (l *lab) addVolume(name string) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.AddVolume(l.t.Context(), seedbed.VolumeRequest{Name: name, Pool: "default", Size: 8 * seedbed.MiB}, usual))
}

func (l *lab) attach(volume, to string) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.Attach(l.t.Context(), seedbed.DefaultProject, volume, seedbed.Attachment{Instance: to}, usual))
}

func (l *lab) resizeVolume(name string, size seedbed.Bytes) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.ResizeVolume(l.t.Context(), seedbed.DefaultProject, name, seedbed.VolumeResize{Size: size}, usual))
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
	return l.job(l.intake.SetVolume(l.t.Context(), seedbed.DefaultProject, name, someLimits.Whole(), usual))
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
	l.runUntil(l.job(l.intake.Detach(t.Context(), seedbed.DefaultProject, "data", "", usual)), seedbed.JobSucceeded)
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

// noVolume checks that neither the database nor the pool has a volume of a project.
func (l *lab) noVolume(name string) {
	l.t.Helper()
	_, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.want("the volume", err, seedbed.ErrNotFound)
	there, err := l.pool.Volumes(l.t.Context())
	l.ok(err)
	if len(there) != 0 {
		l.t.Errorf("in the pool are %v", there)
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
	l.runUntil(l.job(l.intake.Attach(t.Context(), seedbed.DefaultProject, "scratch",
		seedbed.Attachment{Instance: "web1", Bus: seedbed.BusSCSI, Keep: &keep}, usual)), seedbed.JobSucceeded)
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
	l.runUntil(l.job(l.intake.Detach(t.Context(), seedbed.DefaultProject, "data", "web1", usual)), seedbed.JobRolledBack)
	l.hasVolume("data", seedbed.VolumeAttached, "web1")
	_, err := l.intake.RemoveVolume(t.Context(), seedbed.DefaultProject, "data", usual)
	l.want("remove it", err, seedbed.ErrInUse)
	_, err = l.intake.Detach(t.Context(), seedbed.DefaultProject, inst.Volumes[0].Name, "", usual)
	l.want("detach the root disk", err, seedbed.ErrConflict)
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
	first := l.job(l.intake.Attach(t.Context(), seedbed.DefaultProject, "data", seedbed.Attachment{Instance: "web1"}, keeping()))
	l.runUntil(first, seedbed.JobFailed)
	l.runUntil(l.job(l.intake.Detach(t.Context(), seedbed.DefaultProject, "data", "", usual)), seedbed.JobSucceeded)
	l.runUntil(l.attach("data", "web2"), seedbed.JobSucceeded)
	_, err := l.db.ResumeJob(t.Context(), first)
	l.want("continue", err, seedbed.ErrConflict)
	l.hasVolume("data", seedbed.VolumeAttached, "web2")
}
