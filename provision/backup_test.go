package provision

import (
	"context"
	"slices"
	"testing"

	"seedbed"
	"seedbed/provision/intake"
	"seedbed/provision/worker/drivertest"
)

// withTarget adds the target "nas", a directory.
func (l *lab) withTarget(dir string) *lab {
	l.t.Helper()
	l.serve(func(s *intake.Serving) { s.Backups = drivertest.Targets{Node: testNode} })
	t := seedbed.BackupTarget{Name: "nas", BackupSettings: seedbed.BackupSettings{Path: dir}}
	_, err := drivertest.Targets{}.CheckTarget(l.t.Context(), t)
	l.ok(err)
	_, err = l.db.CreateBackupTarget(l.t.Context(), t)
	l.ok(err)
	return l
}

func (l *lab) backUp() seedbed.JobID {
	l.t.Helper()
	return l.ask(seedbed.DoBackup, map[string]any{"target": "nas"})
}

// backups returns what is in the target, oldest first.
func (l *lab) backups() []seedbed.BackupHead {
	l.t.Helper()
	t, err := l.db.BackupTarget(l.t.Context(), "nas")
	l.ok(err)
	list, err := drivertest.Targets{}.ListBackups(l.t.Context(), t)
	l.ok(err)
	return list.Backups
}

// hasBackups checks that there are so many backups, and that the instance has no snapshot of them.
func (l *lab) hasBackups(inst seedbed.Instance, want int) {
	l.t.Helper()
	if got := l.backups(); len(got) != want {
		l.t.Errorf("backups %+v, want %d", got, want)
	}
	l.snapshots(inst)
}

// backedUp returns web1, which has a backup in the target.
func (l *lab) backedUp() seedbed.Instance {
	l.t.Helper()
	l.withTarget(l.t.TempDir())
	inst := l.made()
	l.pool.Write(inst.Volumes[0].Name, "old")
	l.runUntil(l.backUp(), seedbed.JobSucceeded)
	return inst
}

func (l *lab) work() seedbed.BackupWork {
	l.t.Helper()
	return seedbed.BackupWork{Target: "nas", Backups: []seedbed.BackupKey{l.backups()[0].BackupKey}}
}

func (l *lab) restoreAs(name string, b seedbed.BackupHead) seedbed.JobID {
	l.t.Helper()
	return l.job(l.intake.RestoreBackup(l.t.Context(), seedbed.DefaultProject, seedbed.BackupRestore{Target: "nas", Backup: b.BackupKey},
		seedbed.BackupRestoreRequest{Name: name}, usual))
}

// attached returns web1, which has the volume "data" attached, with a backup of both in the target.
func (l *lab) attachedBackedUp() seedbed.ProjectVolume {
	l.t.Helper()
	l.withTarget(l.t.TempDir())
	inst := l.made()
	for _, name := range []string{"data", "scratch"} {
		l.runUntil(l.addVolume(name), seedbed.JobSucceeded)
		l.runUntil(l.attach(name, "web1"), seedbed.JobSucceeded)
	}
	v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, "data")
	l.ok(err)
	l.pool.Write(inst.Volumes[0].Name, "root")
	l.pool.Write(v.Volume, "data")
	l.runUntil(l.ask(seedbed.DoBackup, map[string]any{"target": "nas", "exclude": []any{"scratch"}}), seedbed.JobSucceeded)
	return v
}

// TestAttachedVolumeBackedUp checks that a backup has the attached volumes that are not left out, and that they are disks of the restored
// instance.
func TestAttachedVolumeBackedUp(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	v := l.attachedBackedUp()
	all, err := l.pool.Snapshots(t.Context(), v.Volume, v.Owner)
	if err != nil || len(all) != 0 {
		t.Errorf("snapshots of the volume: %+v, %v", all, err)
	}
	l.runUntil(l.restoreAs("web2", l.backups()[0]), seedbed.JobSucceeded)
	made := l.byName("web2")
	var got []string
	for _, d := range made.Volumes {
		got = append(got, l.pool.Read(d.Name))
	}
	if want := []string{"root", "data"}; !slices.Equal(got, want) {
		t.Errorf("the restored instance has %q, want %q", got, want)
	}
	_, err = l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoBackup, Name: "web1",
		Params: map[string]any{"target": "nas", "exclude": []any{"other"}}}, nil)
	l.want("a volume that is not attached", err, seedbed.ErrInvalid)
}

// TestSnapshotsOfRemovedTarget checks that a backup removes the snapshots that volumes keep for targets that were removed, and no others.
func TestSnapshotsOfRemovedTarget(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	v := l.attachedBackedUp()
	other := seedbed.BackupTarget{Name: "nas-2", BackupSettings: seedbed.BackupSettings{Path: t.TempDir()}}
	_, err := l.db.CreateBackupTarget(t.Context(), other)
	l.ok(err)
	inst, id := l.byName("web1"), l.backups()[0].Backup
	keep := []string{"backup-nas-1", seedbed.AttachedBackupSnapshot("nas-2", id, 1)}
	for _, name := range append(slices.Clone(keep), seedbed.AttachedBackupSnapshot("gone", id, 1), seedbed.BackupSnapshot("nas", id)) {
		for volume, owner := range map[string]seedbed.InstanceID{v.Volume: v.Owner, inst.Volumes[0].Name: inst.ID} {
			l.takeInside(seedbed.SnapshotSpec{Pool: v.Pool, Volume: volume, Instance: owner, Name: name})
		}
	}
	l.runUntil(l.ask(seedbed.DoBackup, map[string]any{"target": "nas", "exclude": []any{"scratch"}}), seedbed.JobSucceeded)
	l.snapshots(inst, keep...)
	all, err := l.pool.Snapshots(t.Context(), v.Volume, v.Owner)
	if err != nil || len(all) != len(keep) {
		t.Errorf("snapshots of the volume: %+v, %v", all, err)
	}
}

// withMixed attaches to web1 a volume in its own pool, and one in a pool whose volumes are no files.
func (l *lab) withMixed() (inst seedbed.Instance, volumes []seedbed.ProjectVolume) {
	l.t.Helper()
	l.host.other.SetBlock()
	l.made()
	for _, pool := range []string{"default", second} {
		name := "in-" + pool
		l.runUntil(l.onVolume(seedbed.DoVolumeAdd, name, seedbed.VolumeOrder{Add: seedbed.VolumeRequest{Pool: pool, Size: 8 * seedbed.MiB}}),
			seedbed.JobSucceeded)
		l.runUntil(l.attach(name, "web1"), seedbed.JobSucceeded)
		v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
		l.ok(err)
		volumes = append(volumes, v)
	}
	return l.byName("web1"), volumes
}

// noSnapshots checks that no snapshot of volumes is left, but for those that the next backup is read against.
func (l *lab) noSnapshots(volumes []seedbed.ProjectVolume, kept int) {
	l.t.Helper()
	for _, v := range volumes {
		want := 0
		if v.Pool == second {
			want = kept
		}
		all, err := l.host.in(v.Pool).Snapshots(l.t.Context(), v.Volume, v.Owner)
		if err != nil || len(all) != want {
			l.t.Errorf("snapshots of %s: %+v, %v", v.Name, all, err)
		}
	}
}

// TestRunningBackedUp backs up a guest that runs and writes on. The backup has all disks, in files and elsewhere, as they were when their
// snapshots were taken, all in files at one moment.
func TestRunningBackedUp(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted).withTarget(t.TempDir())
	inst, volumes := l.withMixed()
	write := func(what string) {
		l.pool.Write(inst.Volumes[0].Name, what)
		for _, v := range volumes {
			l.host.in(v.Pool).Write(v.Volume, what)
		}
	}
	write("before")
	taken := 0
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == "SnapshotDisks" && at == drivertest.After {
			taken++
			l.pool.Write(inst.Volumes[0].Name, "since")
			for _, v := range volumes {
				if v.Pool != second {
					l.pool.Write(v.Volume, "since")
				}
			}
		}
		return nil
	})
	l.runUntil(l.backUp(), seedbed.JobSucceeded)
	l.hv.Fail(nil)
	if taken != 1 {
		t.Errorf("the guest has taken snapshots %d times", taken)
	}
	l.hasBackups(inst, 1)
	l.noSnapshots(volumes, 1)
	l.runUntil(l.restoreAs("web2", l.backups()[0]), seedbed.JobSucceeded)
	for _, d := range l.byName("web2").Volumes {
		if got := l.host.in(d.Pool).Read(d.Name); got != "before" {
			t.Errorf("disk %d of the restored instance has %q", d.Index, got)
		}
	}
}

var backupCases = []jobCase{
	{"backup mixed", seedbed.Job{Kind: seedbed.JobBackup}, func(l *lab) caseJob {
		l.withTarget(l.t.TempDir())
		inst, volumes := l.withMixed()
		guest := l.withGuestAgent(inst)
		return caseJob{l.backUp(), func() { l.hasBackups(inst, 1); l.noSnapshots(volumes, 1); l.thawed(guest) },
			func() { l.hasBackups(inst, 0); l.noSnapshots(volumes, 0); l.thawed(guest) }}
	}},
	{"backup attached", seedbed.Job{Kind: seedbed.JobBackup}, func(l *lab) caseJob {
		l.withTarget(l.t.TempDir())
		inst := l.made()
		l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
		l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
		guest := l.withGuestAgent(inst)
		return caseJob{l.backUp(), func() { l.hasBackups(inst, 1); l.thawed(guest) }, func() { l.hasBackups(inst, 0); l.thawed(guest) }}
	}},
	{"backup", seedbed.Job{Kind: seedbed.JobBackup}, func(l *lab) caseJob {
		l.withTarget(l.t.TempDir())
		inst := l.made()
		guest := l.withGuestAgent(inst)
		return caseJob{l.backUp(), func() { l.hasBackups(inst, 1); l.thawed(guest) }, func() { l.hasBackups(inst, 0); l.thawed(guest) }}
	}},
	{"backup-restore", seedbed.Job{Kind: seedbed.JobBackupRestore}, func(l *lab) caseJob {
		l.backedUp()
		l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
		return caseJob{l.restoreAs("web1", l.backups()[0]), func() { l.up("web1") }, func() { l.nothing("web1") }}
	}},
	{"backup-verify", seedbed.Job{Kind: seedbed.JobBackupVerify}, func(l *lab) caseJob {
		inst := l.backedUp()
		whole := func() { l.hasBackups(inst, 1) }
		return caseJob{l.job(l.intake.VerifyBackups(l.t.Context(), seedbed.DefaultProject, l.work(), usual)), whole, whole}
	}},
	{"backup-remove", seedbed.Job{Kind: seedbed.JobBackupRemove}, func(l *lab) caseJob {
		inst := l.backedUp()
		return caseJob{id: l.job(l.intake.RemoveBackups(l.t.Context(), seedbed.DefaultProject, l.work(), usual)),
			done: func() { l.hasBackups(inst, 0) }}
	}},
}

// TestRestoredElsewhere backs an instance up twice, and makes instances of both backups in an installation that has never heard of it.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here := newLab(t).withProfile(seedbed.ReadyStarted).withTarget(dir)
	inst := here.made()
	here.pool.Write(inst.Volumes[0].Name, "old")
	here.runUntil(here.backUp(), seedbed.JobSucceeded)
	here.runUntil(here.backUp(), seedbed.JobSucceeded)
	here.pool.Write(inst.Volumes[0].Name, "new")
	here.runUntil(here.backUp(), seedbed.JobSucceeded)
	all := here.backups()
	if len(all) != 3 || all[0].Stored == 0 || all[1].Stored != 0 || all[2].Stored == 0 {
		t.Fatalf("backups %+v", all)
	}
	there := newLab(t).withProfile(seedbed.ReadyStarted).withTarget(dir)
	for i, want := range []string{"old", "old", "new"} {
		name := "copy" + string(rune('0'+i))
		there.runUntil(there.restoreAs(name, all[i]), seedbed.JobSucceeded)
		made := there.byName(name)
		if got := there.pool.Read(made.Volumes[0].Name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		if made.ID == inst.ID || made.NICs[0].MAC == inst.NICs[0].MAC || made.VCPUs != inst.VCPUs ||
			string(made.UserData) != string(inst.UserData) {
			t.Errorf("made %+v of %+v", made, inst)
		}
		there.up(name)
		there.runUntil(there.job(there.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoRemove, Name: name}, nil)),
			seedbed.JobSucceeded)
	}
}
