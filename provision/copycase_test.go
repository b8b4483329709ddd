package provision

import (
	"io"
	"os"
	"strings"
	"testing"

	"seedbed"
	"seedbed/provision/worker/drivertest"
)

// copyCases are the cases of jobs that copy the disks of instances.
var copyCases = []jobCase{
	{"import of a volume", seedbed.Job{Kind: seedbed.JobImport, Spec: inputOf(seedbed.ImportSpec{From: &seedbed.VolumeSource{}})},
		func(l *lab) caseJob {
			inst := l.written()
			return caseJob{l.imageOf("web1@s1", false), func() { l.imaged(inst, "old") }, func() { l.notImaged(inst) }}
		}},
	{"import of a generalised volume", seedbed.Job{Kind: seedbed.JobImport,
		Spec: inputOf(seedbed.ImportSpec{From: &seedbed.VolumeSource{}, Generalised: &seedbed.VolumeSource{}})},
		func(l *lab) caseJob {
			inst := l.written()
			return caseJob{l.imageOf("web1:0", true), func() { l.imaged(inst, "new") }, func() { l.notImaged(inst) }}
		}},
	{"volume-move", seedbed.Job{Kind: seedbed.JobVolumeMove}, func(l *lab) caseJob {
		l.stopped()
		l.writtenVolume("data")
		return caseJob{l.moveVolume("data", second), func() { l.volumeIn("data", second, "") }, func() { l.volumeIn("data", "default", "") }}
	}},
	{"volume-move attached", seedbed.Job{Kind: seedbed.JobVolumeMove}, func(l *lab) caseJob {
		l.stopped()
		l.writtenVolume("data")
		l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
		return caseJob{l.moveVolume("data", second), func() { l.volumeIn("data", second, "web1") },
			func() { l.volumeIn("data", "default", "web1") }}
	}},
	{"volume-download", seedbed.Job{Kind: seedbed.JobVolumeDownload}, func(l *lab) caseJob {
		l.writtenVolume("data")
		id := l.downloadVolume("data", "qcow2")
		return caseJob{id, func() { l.inFile(id, "data", "") }, func() { l.notInFile("data", "") }}
	}},
	{"volume-download attached", seedbed.Job{Kind: seedbed.JobVolumeDownload}, func(l *lab) caseJob {
		l.stopped()
		l.writtenVolume("data")
		l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
		id := l.downloadVolume("data", "raw")
		return caseJob{id, func() { l.inFile(id, "data", "web1") }, func() { l.notInFile("data", "web1") }}
	}},
	{"volume-add upload", seedbed.Job{Kind: seedbed.JobVolumeAdd}, func(l *lab) caseJob {
		return caseJob{l.uploadVolume("data"), func() {
			l.hasVolume("data", seedbed.VolumeFree, "")
			v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, "data")
			l.ok(err)
			if got := l.pool.Read(v.Volume); len(got) < 512 || l.pool.Uploads() != 0 {
				l.t.Errorf("the volume has %d bytes, and %d uploads wait", len(got), l.pool.Uploads())
			}
		}, func() {
			if l.noVolume("data"); l.pool.Uploads() != 0 {
				l.t.Errorf("%d uploads wait", l.pool.Uploads())
			}
		}}
	}},
	{"volume-add copy from another pool", seedbed.Job{Kind: seedbed.JobVolumeAdd}, func(l *lab) caseJob {
		l.stopped()
		l.writtenVolume("data")
		id := l.onVolume(seedbed.DoVolumeAdd, "copy", seedbed.VolumeOrder{Add: seedbed.VolumeRequest{From: "data", Pool: second}})
		return caseJob{id, func() { l.inPool("data", "default"); l.inPool("copy", second) },
			func() {
				l.inPool("data", "default")
				if there, err := l.host.other.Volumes(l.t.Context()); err != nil || len(there) != 0 {
					l.t.Errorf("in pool %s are %+v, %v", second, there, err)
				}
			}}
	}},
}

// writtenVolume makes a volume, and writes its name to it.
func (l *lab) writtenVolume(name string) {
	l.t.Helper()
	l.runUntil(l.addVolume(name), seedbed.JobSucceeded)
	v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.ok(err)
	l.pool.Write(v.Volume, "what data has")
}

// uploadVolume returns the job that makes a volume of an uploaded disk.
func (l *lab) uploadVolume(name string) seedbed.JobID {
	l.t.Helper()
	f, err := os.Open(l.imageFile())
	l.ok(err)
	defer f.Close()
	up, err := l.pool.ReceiveUpload(l.t.Context(), seedbed.UploadSpec{Pool: "default", ID: anUpload, Disk: true}, f)
	l.ok(err)
	return l.onVolume(seedbed.DoVolumeAdd, name, seedbed.VolumeOrder{Add: seedbed.VolumeRequest{Pool: up.Pool, Size: up.Disk,
		Upload: &seedbed.VolumeUpload{ID: up.ID, Format: "raw"}}})
}

func (l *lab) downloadVolume(name, format string) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeDownload, name, seedbed.VolumeOrder{Download: seedbed.VolumeDownload{Format: format}})
}

// inFile checks that a job has made a file with what was written to a volume, which is as it was.
func (l *lab) inFile(id seedbed.JobID, name, holder string) {
	l.t.Helper()
	v, err := l.db.ProjectVolume(l.t.Context(), seedbed.DefaultProject, name)
	l.ok(err)
	f, err := l.pool.OpenDownload(l.t.Context(), seedbed.FileOf(v.Pool, v.ID, id).ID)
	l.ok(err)
	got, err := io.ReadAll(f)
	l.ok(err)
	if !strings.HasPrefix(string(got), "what data has\x00") || l.pool.Uploads() != 1 {
		l.t.Errorf("the file of volume %s begins with %q, of %d files", name, got[:min(20, len(got))], l.pool.Uploads())
	}
	l.volumeIn(name, "default", holder)
}

func (l *lab) notInFile(name, holder string) {
	l.t.Helper()
	if n := l.pool.Uploads(); n != 0 {
		l.t.Errorf("%d files are left", n)
	}
	l.volumeIn(name, "default", holder)
}

func (l *lab) moveVolume(name, pool string) seedbed.JobID {
	l.t.Helper()
	return l.onVolume(seedbed.DoVolumeMove, name, seedbed.VolumeOrder{Move: seedbed.VolumeMove{Pool: pool}})
}

// inPool checks that a volume is in a pool, there with what was written to it, and in no other.
func (l *lab) inPool(name, pool string) seedbed.ProjectVolume {
	l.t.Helper()
	ctx := l.t.Context()
	v, err := l.db.ProjectVolume(ctx, seedbed.DefaultProject, name)
	l.ok(err)
	if v.Pool != pool || v.Node != testNode || v.Image != "" {
		l.t.Errorf("volume %s is recorded as %+v; want it in pool %s", name, v, pool)
	}
	for at, p := range map[string]*drivertest.Pool{"default": l.pool, second: l.host.other} {
		info, err := p.Volume(ctx, v.Volume, v.Owner)
		if at != pool {
			l.want("volume "+name+" in pool "+at, err, seedbed.ErrNotFound)
			continue
		}
		taken, e := p.Snapshots(ctx, v.Volume, v.Owner)
		if err != nil || e != nil || info.Size != v.Size || p.Read(v.Volume) != "what data has" || len(taken) != 0 {
			l.t.Errorf("volume %s in pool %s is %+v with %q and the snapshots %v: %v, %v", name, at, info, p.Read(v.Volume), taken, err, e)
		}
	}
	return v
}

// volumeIn is inPool for a volume that moves, of which an instance that is off may have the definition.
func (l *lab) volumeIn(name, pool, holder string) {
	l.t.Helper()
	v := l.inPool(name, pool)
	state := seedbed.VolumeFree
	if holder != "" {
		state = seedbed.VolumeAttached
	}
	if v.Holder != holder || v.State != state {
		l.t.Errorf("volume %s is %s at %q; want %s at %q", name, v.State, v.Holder, state, holder)
	}
	if holder == "" {
		return
	}
	info, err := l.host.in(pool).Volume(l.t.Context(), v.Volume, v.Owner)
	l.ok(err)
	spec, _ := l.hv.Spec(v.Instance)
	if a := spec.Attached; len(a) != 1 || a[0].Serial != v.Serial || a[0].Disk != info.Disk || a[0].Device != "vdb" {
		l.t.Errorf("domain %s has %+v; want %+v", holder, spec.Attached, info.Disk)
	}
}

// TestMoveRefused checks which volumes are not moved, and that one that is moved is left alone by others.
func TestMoveRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.made()
	l.writtenVolume("data")
	refused := func(what, name, pool string, want error) {
		t.Helper()
		_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoVolumeMove, Name: name,
			Volume: seedbed.VolumeOrder{Move: seedbed.VolumeMove{Pool: pool}}, JobOptions: usual}, nil)
		l.want(what, err, want)
	}
	refused("its own pool", "data", "default", seedbed.ErrInvalid)
	refused("no pool", "data", "", seedbed.ErrInvalid)
	refused("no volume", "none", second, seedbed.ErrNotFound)
	refused("a disk of an instance", inst.Volumes[0].Name, second, seedbed.ErrConflict)
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	refused("while its instance runs", "data", second, seedbed.ErrConflict)
	l.runUntil(l.ask(seedbed.DoStop, nil), seedbed.JobSucceeded)
	id := l.moveVolume("data", second)
	_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoVolumeAdd, Name: "copy",
		Volume: seedbed.VolumeOrder{Add: seedbed.VolumeRequest{From: "data"}}, JobOptions: usual}, nil)
	l.want("copy what moves", err, seedbed.ErrInUse)
	_, err = l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoStart, Name: "web1", JobOptions: usual}, nil)
	l.want("start its instance", err, seedbed.ErrInUse)
	l.runUntil(id, seedbed.JobSucceeded)
	l.volumeIn("data", second, "web1")
	l.runUntil(l.moveVolume("data", "default"), seedbed.JobSucceeded)
	l.volumeIn("data", "default", "web1")
}

// While a file of a volume is made, nothing else changes the volume, and a second file takes the place of the first.
func TestDownloadHolds(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.stopped()
	l.writtenVolume("data")
	first := l.downloadVolume("data", "raw")
	l.want("remove it", l.refusedVolume(seedbed.DoVolumeRemove, "data"), seedbed.ErrInUse)
	l.runUntil(first, seedbed.JobSucceeded)
	l.inFile(first, "data", "")
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	second := l.downloadVolume("data", "")
	_, err := l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoStart, Name: "web1", JobOptions: usual}, nil)
	l.want("start its instance", err, seedbed.ErrInUse)
	l.runUntil(second, seedbed.JobSucceeded)
	l.inFile(second, "data", "web1")
	_, err = l.intake.Submit(t.Context(), seedbed.Request{Action: seedbed.DoVolumeDownload, Name: "data",
		Volume: seedbed.VolumeOrder{Download: seedbed.VolumeDownload{Format: "vmdk"}}, JobOptions: usual}, nil)
	l.want("an unknown format", err, seedbed.ErrInvalid)
}

// A guest that somebody starts during the move keeps its volume: what it writes is not in the copy.
func TestMoveOfStarted(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.stopped()
	l.writtenVolume("data")
	l.runUntil(l.attach("data", "web1"), seedbed.JobSucceeded)
	id := l.moveVolume("data", second)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	l.ok(l.hv.StartDomain(t.Context(), inst.ID))
	l.runUntil(id, seedbed.JobRolledBack)
	l.volumeIn("data", "default", "web1")
}

// imageOf returns the job that makes the image "golden" of a volume.
func (l *lab) imageOf(from string, generalise bool) seedbed.JobID {
	l.t.Helper()
	spec := seedbed.ImportSpec{From: &seedbed.VolumeSource{Name: from}}
	if generalise {
		spec.Generalised = &seedbed.VolumeSource{}
	}
	return l.job(l.intake.Import(l.t.Context(), "golden", "", spec, usual))
}

// imaged checks that the image has what was written to the disk of an instance, which is as it was.
func (l *lab) imaged(inst seedbed.Instance, content string) {
	l.t.Helper()
	l.hasImage("golden", true)
	if got := l.pool.ReadImage("golden"); got != content {
		l.t.Errorf("the image has %q; want %q", got, content)
	}
	image, err := l.db.Image(l.t.Context(), "golden")
	l.ok(err)
	if image.Size != inst.Volumes[0].Size || image.Pool != "default" || !strings.HasPrefix(image.Source, "volume web1") {
		l.t.Errorf("the image is %+v", image)
	}
	l.sourceStays(inst)
}

func (l *lab) notImaged(inst seedbed.Instance) {
	l.t.Helper()
	l.hasImage("golden", false)
	l.sourceStays(inst)
}

// sourceStays checks that the pool has nothing but the disk of the instance, with its snapshot, and that no script runs.
func (l *lab) sourceStays(inst seedbed.Instance) {
	l.t.Helper()
	l.snapshots(inst, "s1")
	there, err := l.pool.Volumes(l.t.Context())
	l.ok(err)
	if len(there) != 1 || there[0].Name != inst.Volumes[0].Name || l.pool.Read(inst.Volumes[0].Name) != "new" {
		l.t.Errorf("in the pool are %+v", there)
	}
	if n := l.host.scripts.Live(); n != 0 {
		l.t.Errorf("%d scripts run", n)
	}
}

// TestGeneralised checks what the script is given, and what it says when it fails.
func TestGeneralised(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.written()
	l.runUntil(l.imageOf("web1", true), seedbed.JobSucceeded)
	l.imaged(inst, "new")
	starts := l.host.scripts.Starts()
	if len(starts) != 1 || starts[0].Instance == inst.ID || starts[0].Options.Privileged || starts[0].Options.Network ||
		!strings.Contains(string(starts[0].Data), `"pool":"default"`) ||
		!strings.Contains(string(starts[0].Data), `"volume":"`+string(starts[0].Instance)+`"`) ||
		!strings.Contains(starts[0].Text, "class VMBuilderScript(VMBuilder)") {
		t.Errorf("scripts %+v", starts)
	}
	l.runUntil(l.create("web2"), seedbed.JobSucceeded)
	l.host.scripts.Missing = []string{"debugfs", "e2fsck"}
	id := l.job(l.intake.Import(t.Context(), "other", "default", seedbed.ImportSpec{
		From: &seedbed.VolumeSource{Name: "web2"}, Generalised: &seedbed.VolumeSource{}}, usual))
	l.runUntil(id, seedbed.JobRolledBack)
	job, err := l.db.Job(t.Context(), id)
	l.ok(err)
	if !strings.Contains(job.Error, "has no debugfs, e2fsck, which generalise disks: install e2fsprogs there") {
		t.Errorf("the job ended with %q", job.Error)
	}
	l.hasImage("other", false)
}

// TestImageOfRefused checks which volumes no image is made of.
func TestImageOfRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.written()
	l.runUntil(l.addVolume("data"), seedbed.JobSucceeded)
	l.runUntil(l.addVolume("web1"), seedbed.JobSucceeded)
	for from, want := range map[string]error{
		"none": seedbed.ErrNotFound, "web1:7": seedbed.ErrNotFound, "../x": seedbed.ErrInvalid,
		"web1": seedbed.ErrInvalid, "web1@s1": seedbed.ErrInvalid, "data@s1": seedbed.ErrInvalid, "web1:0@../x": seedbed.ErrInvalid,
		"": seedbed.ErrInvalid,
	} {
		_, err := l.intake.Import(t.Context(), "golden", "", seedbed.ImportSpec{From: &seedbed.VolumeSource{Name: from}}, usual)
		l.want("an image of "+from, err, want)
	}
	_, err := l.intake.Import(t.Context(), "golden", "other", seedbed.ImportSpec{From: &seedbed.VolumeSource{Name: "data"}}, usual)
	l.want("another pool", err, seedbed.ErrInvalid)
	_, err = l.intake.Import(t.Context(), "debian", "", seedbed.ImportSpec{From: &seedbed.VolumeSource{Name: "data"}}, usual)
	l.want("a name in use", err, seedbed.ErrExists)
	id := l.job(l.intake.Import(t.Context(), "golden", "", seedbed.ImportSpec{From: &seedbed.VolumeSource{Name: "data"}}, usual))
	l.want("remove what is copied", l.refusedVolume(seedbed.DoVolumeRemove, "data"), seedbed.ErrInUse)
	l.runUntil(id, seedbed.JobSucceeded)
	l.hasImage("golden", true)
	l.runUntil(l.onVolume(seedbed.DoVolumeRemove, "data", seedbed.VolumeOrder{}), seedbed.JobSucceeded)
}

// TestCopyOfSnapshot checks that a volume can be made with what a disk had at a snapshot.
func TestCopyOfSnapshot(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	inst := l.written()
	l.runUntil(l.copyVolume("web1@s1", "then"), seedbed.JobSucceeded)
	l.runUntil(l.copyVolume("web1:0", "now"), seedbed.JobSucceeded)
	for name, want := range map[string]string{"then": "old", "now": "new"} {
		v, err := l.db.ProjectVolume(t.Context(), seedbed.DefaultProject, name)
		l.ok(err)
		if got := l.pool.Read(v.Volume); got != want {
			t.Errorf("volume %s has %q; want %q", name, got, want)
		}
	}
	l.snapshots(inst, "s1")
}
