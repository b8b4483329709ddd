package storetest

import (
	"context"
	"encoding/json"

	"seedbed"
)

var volumeSizeCases = map[string]func(*bench){
	"resized":           testVolumeResized,
	"resized attached":  testAttachedResized,
	"resize refused":    testVolumeResizeRefused,
	"resize and quota":  testVolumeResizeQuota,
	"resize and resume": testVolumeResizeResumed,
	"limits":            testVolumeLimits,
	"moved":             testVolumeMoved,
}

func volumeResizeOf(id seedbed.InstanceID, name string, size seedbed.Bytes) seedbed.Acceptance {
	spec, _ := json.Marshal(seedbed.VolumeJob{Name: name, Size: size})
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobVolumeResize, Project: seedbed.DefaultProject,
		Subject: name, Instance: id, Node: node, Spec: spec}}
}

func (b *bench) volumeNamed(name string) seedbed.ProjectVolume {
	b.Helper()
	return get(b.ProjectVolume(context.Background(), seedbed.DefaultProject, name))(b)
}

func testVolumeResized(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.volume("data")
	a := volumeResizeOf("", "data", 3*seedbed.GiB)
	get(b.Accept(ctx, a))(b)
	v := b.volumeNamed("data")
	b.equal([]any{v.State, v.Size, v.Wanted}, []any{seedbed.VolumeChanging, seedbed.GiB, 3 * seedbed.GiB})
	_, err := b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, "data", true))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.Accept(ctx, volumeRemoveOf("data"))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.Accept(ctx, volumeResizeOf("", "data", 4*seedbed.GiB))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.RenameVolume(ctx, seedbed.DefaultProject, "data", "archive")
	b.want(err, seedbed.ErrConflict, "changing")
	j := b.claim()
	b.equal([]string{j.Subject, j.Pool, j.Node, string(j.Instance)}, []string{"data", "default", node, ""})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "grow", Total: 1, Final: true}))
	for range 2 {
		b.must(b.SetVolumeSize(ctx, j.Ref(), 3*seedbed.GiB))
	}
	b.must(b.SetVolumeSize(ctx, j.Ref(), 2*seedbed.GiB)) // it never becomes smaller
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	v = b.volumeNamed("data")
	b.equal([]any{v.State, v.Size, v.Wanted}, []any{seedbed.VolumeFree, 3 * seedbed.GiB, seedbed.Bytes(0)})
	b.want(b.SetVolumeSize(ctx, j.Ref(), 4*seedbed.GiB), seedbed.ErrStale)

	cancelled := volumeResizeOf("", "data", 4*seedbed.GiB) // before it began
	get(b.Accept(ctx, cancelled))(b)
	b.must(b.CancelJob(ctx, cancelled.Job.ID))
	v = b.volumeNamed("data")
	b.equal([]any{v.State, v.Size, v.Wanted}, []any{seedbed.VolumeFree, 3 * seedbed.GiB, seedbed.Bytes(0)})
}

func testAttachedResized(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.volume("data")
	_, err := b.Accept(ctx, volumeResizeOf(i.ID, "data", 3*seedbed.GiB))
	b.want(err, seedbed.ErrConflict, "in the meantime")
	b.attached(i, "data", true)
	_, err = b.Accept(ctx, volumeResizeOf("", "data", 3*seedbed.GiB))
	b.want(err, seedbed.ErrConflict, "in the meantime")
	get(b.Accept(ctx, volumeResizeOf(i.ID, "data", 3*seedbed.GiB)))(b)
	b.equal(b.volumeNamed("data").State, seedbed.VolumeAttached)
	_, err = b.Accept(ctx, volumeJob(seedbed.JobFlatten, i.ID, ""))
	b.want(err, seedbed.ErrInUse)
	was := get(b.Instance(ctx, i.ID))(b).Revision
	j := b.claim()
	b.equal([]string{j.Subject, j.Pool, j.Node}, []string{"web1", "default", node})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "grow", Total: 1, Final: true}))
	b.must(b.SetVolumeSize(ctx, j.Ref(), 3*seedbed.GiB))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.Attached[0].Size, now.Attached[0].State, now.Revision > was}, []any{3 * seedbed.GiB, seedbed.VolumeAttached, true})
}

func testVolumeResizeRefused(b *bench) {
	ctx := context.Background()
	b.world()
	b.volume("data")
	for name, c := range map[string]struct {
		size seedbed.Bytes
		kind error
		says string
	}{
		"smaller":  {seedbed.MiB, seedbed.ErrInvalid, "it would lose what is at its end; a volume can only become larger"},
		"the same": {seedbed.GiB, seedbed.ErrInvalid, "already has 1GiB"},
		"nothing":  {0, seedbed.ErrInvalid, "size"},
		"too much": {seedbed.MaxDisk + seedbed.MiB, seedbed.ErrInvalid, "size"},
	} {
		_, err := b.Accept(ctx, volumeResizeOf("", "data", c.size))
		if err == nil {
			b.Errorf("%s is accepted", name)
			continue
		}
		b.want(err, c.kind, c.says)
	}
	_, err := b.Accept(ctx, volumeResizeOf("", "none", seedbed.TiB))
	b.want(err, seedbed.ErrNotFound, "none")
	get(b.Accept(ctx, volumeRemoveOf("data")))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"}))
	_, err = b.Accept(ctx, volumeResizeOf("", "data", seedbed.TiB))
	b.want(err, seedbed.ErrConflict, "removing")
}

// The growth counts from the acceptance, until the job has ended.
func testVolumeResizeQuota(b *bench) {
	b.world()
	ci := b.token("ci", seedbed.TokenQuota{Disk: 5 * seedbed.GiB})
	ctx := byToken(ci)
	for _, name := range []string{"first", "second"} {
		get(b.Accept(ctx, volumeAddOf(name)))(b)
		b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	}
	_, err := b.Accept(ctx, volumeResizeOf("", "first", 5*seedbed.GiB))
	b.want(err, seedbed.ErrForbidden, `token "ci"`, "this wants 4GiB more")
	get(b.Accept(ctx, volumeResizeOf("", "first", 4*seedbed.GiB)))(b)
	_, err = b.Accept(ctx, volumeResizeOf("", "second", 2*seedbed.GiB))
	b.want(err, seedbed.ErrForbidden, "it has 5GiB")
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no room"}))
	get(b.Accept(ctx, volumeResizeOf("", "second", 2*seedbed.GiB)))(b)
}

// A job that is resumed needs its volume, and its place in the quota, again.
func testVolumeResizeResumed(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.volume("data")
	a := volumeResizeOf("", "data", 3*seedbed.GiB)
	get(b.Accept(ctx, a))(b)
	fail := func() {
		b.Helper()
		j := b.claim()
		b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "grow", Total: 1, Final: true}))
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no room"}))
	}
	fail()
	b.equal(b.volumeNamed("data").State, seedbed.VolumeFree)
	get(b.ResumeJob(ctx, a.Job.ID))(b)
	v := b.volumeNamed("data")
	b.equal([]any{v.State, v.Wanted}, []any{seedbed.VolumeChanging, 3 * seedbed.GiB})
	fail()
	b.attached(i, "data", true)
	_, err := b.ResumeJob(ctx, a.Job.ID)
	b.want(err, seedbed.ErrInUse, "web1")

	a = volumeResizeOf(i.ID, "data", 3*seedbed.GiB)
	get(b.Accept(ctx, a))(b)
	fail()
	get(b.ResumeJob(ctx, a.Job.ID))(b)
	v = b.volumeNamed("data")
	b.equal([]any{v.State, v.Wanted}, []any{seedbed.VolumeAttached, 3 * seedbed.GiB})
	fail()
	get(b.Accept(ctx, attachmentOf(seedbed.JobDetach, i.ID, "data", true)))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err = b.ResumeJob(ctx, a.Job.ID)
	b.want(err, seedbed.ErrConflict, "no longer that of instance")
}

func testVolumeLimits(b *bench) {
	ctx := context.Background()
	b.world()
	a := volumeAddOf("data")
	a.Volume.IOLimits = seedbed.IOLimits{IOPS: 500, ReadBandwidth: seedbed.MiB}
	get(b.Accept(ctx, a))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(b.volumeNamed("data").IOLimits, a.Volume.IOLimits)
	setOf := func(change *seedbed.VolumeLimits) seedbed.Acceptance {
		s := volumeResizeOf("", "data", 0)
		s.Job.Kind = seedbed.JobVolumeSet
		s.Job.Spec, _ = json.Marshal(seedbed.VolumeJob{Name: "data", Set: change})
		return s
	}
	some, none := int64(100), int64(0)
	for _, bad := range []*seedbed.VolumeLimits{nil, {}, {ReadIOPS: &some}, {IOPS: &a.Volume.IOPS}} {
		_, err := b.Accept(ctx, setOf(bad))
		b.want(err, seedbed.ErrInvalid)
	}
	get(b.Accept(ctx, setOf(&seedbed.VolumeLimits{IOPS: &none, WriteIOPS: &some})))(b)
	b.equal(b.volumeNamed("data").State, seedbed.VolumeChanging)
	j := b.claim()
	var spec seedbed.VolumeJob
	b.must(json.Unmarshal(j.Spec, &spec))
	want := seedbed.IOLimits{WriteIOPS: 100, ReadBandwidth: seedbed.MiB}
	b.equal([]any{*spec.Was, *spec.Limits}, []any{a.Volume.IOLimits, want})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "limit", Total: 1}))
	for range 2 {
		b.must(b.SetVolumeLimits(ctx, j.Ref(), want))
	}
	b.equal(b.volumeNamed("data").IOLimits, want)
	b.want(b.SetVolumeSize(ctx, j.Ref(), seedbed.TiB), seedbed.ErrConflict)
	b.must(b.Undo(ctx, j.Ref(), "no"))
	b.must(b.SetVolumeLimits(ctx, j.Ref(), *spec.Was))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	v := b.volumeNamed("data")
	b.equal([]any{v.IOLimits, v.State}, []any{a.Volume.IOLimits, seedbed.VolumeFree})
}

// copyAddOf asks for a volume that becomes a copy of v.
func copyAddOf(name string, v seedbed.ProjectVolume) seedbed.Acceptance {
	a := volumeAddOf(name)
	a.Volume.Size = 0
	from := seedbed.VolumeSource{ID: v.ID, Name: v.Name, Volume: v.Volume, Owner: v.Owner}
	a.Job.Spec, _ = json.Marshal(seedbed.VolumeJob{Name: name, From: &from})
	return a
}

func testVolumeCopied(b *bench) {
	ctx := context.Background()
	b.world()
	i, v := b.instance("web1"), b.volume("data")
	a := copyAddOf("copy", v)
	get(b.Accept(ctx, a))(b)
	made := get(b.ProjectVolume(ctx, seedbed.DefaultProject, "copy"))(b)
	b.equal([]any{made.State, made.Size, made.Image, made.Pool}, []any{seedbed.VolumeMaking, v.Size, "", v.Pool})
	var spec seedbed.VolumeJob
	b.must(json.Unmarshal(get(b.Job(ctx, a.Job.ID))(b).Spec, &spec))
	b.equal([]any{spec.ID, *spec.From}, []any{made.ID, seedbed.VolumeSource{ID: v.ID, Name: "data", Volume: v.Volume, Owner: v.Owner}})

	// What is copied stays, and is not given to a guest.
	_, err := b.Accept(ctx, volumeRemoveOf("data"))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, "data", true))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.Accept(ctx, copyAddOf("other", made))
	b.want(err, seedbed.ErrInUse, "making")
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	get(b.Accept(ctx, volumeRemoveOf("data")))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err = b.Accept(ctx, copyAddOf("other", v))
	b.want(err, seedbed.ErrNotFound, "data")

	small := copyAddOf("other", made)
	small.Volume.Size = seedbed.MiB
	_, err = b.Accept(ctx, small)
	b.want(err, seedbed.ErrInvalid, "expected at least that")

	// A disk of an instance has no ID.
	disk := seedbed.ProjectVolume{Name: "web1:0", Volume: i.Volumes[0].Name, Owner: i.ID}
	get(b.Accept(ctx, copyAddOf("disk", disk)))(b)
	b.equal(get(b.ProjectVolume(ctx, seedbed.DefaultProject, "disk"))(b).Size, i.Volumes[0].Size)
	disk.Volume = "none"
	_, err = b.Accept(ctx, copyAddOf("other", disk))
	b.want(err, seedbed.ErrNotFound, "web1:0")
}

// imageAddOf asks for an image of v.
func imageAddOf(name string, v seedbed.ProjectVolume, generalised *seedbed.VolumeSource) seedbed.Acceptance {
	a := importOf(name)
	from := seedbed.VolumeSource{ID: v.ID, Name: v.Name, Volume: v.Volume, Owner: v.Owner}
	a.Job.Spec, _ = json.Marshal(seedbed.ImportSpec{From: &from, Generalised: generalised})
	return a
}

func testImageOfVolume(b *bench) {
	ctx := context.Background()
	b.world()
	v := b.volume("data")
	elsewhere := imageAddOf("golden", v, nil)
	elsewhere.Image.Pool = "ssd"
	_, err := b.Accept(ctx, elsewhere)
	b.want(err, seedbed.ErrInvalid, "cannot be copied")
	a := imageAddOf("golden", v, &seedbed.VolumeSource{Owner: seedbed.NewInstanceID()})
	get(b.Accept(ctx, a))(b)
	b.equal(len(get(b.VolumeOwners(ctx))(b)), 2)
	_, err = b.Accept(ctx, volumeRemoveOf("data"))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(get(b.VolumeOwners(ctx))(b), []seedbed.InstanceID{v.Owner})
	get(b.Accept(ctx, volumeRemoveOf("data")))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err = b.Accept(ctx, imageAddOf("other", v, nil))
	b.want(err, seedbed.ErrNotFound, "data")
}

func setOf(i seedbed.Instance, change seedbed.HardwareChange) seedbed.Acceptance {
	raw, _ := json.Marshal(seedbed.HardwareJob{Set: change})
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobSet, Instance: i.ID, Spec: raw}}
}

// iso adds an image that a CD-ROM drive takes.
func (b *bench) iso(name string) {
	b.Helper()
	ctx := context.Background()
	get(b.Accept(ctx, importOf(name)))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", Total: 1}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "import", Image: &seedbed.ImageInfo{
		Size: seedbed.GiB, Format: seedbed.FormatISO, SHA256: "abc"}}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
}

// testHardware checks that a job changes the hardware of an instance and back, that an image is in use while it is in a drive or may come
// there, and that what is pending is not any more once the instance has stopped.
func testHardware(b *bench) {
	ctx := context.Background()
	b.world()
	b.iso("one")
	b.iso("two")
	i := b.instance("web1")
	from, yes := seedbed.BootCDROM, true
	removal := func(image string) error {
		_, err := b.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: image}})
		return err
	}
	spec := func(j seedbed.Job) (spec seedbed.HardwareJob) {
		b.must(json.Unmarshal(j.Spec, &spec))
		return spec
	}
	get(b.Accept(ctx, setOf(i, seedbed.HardwareChange{CDROM: new("one"), BootFrom: &from})))(b)
	b.want(removal("one"), seedbed.ErrInUse, "a change of the CD-ROM drive of instance web1")
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "configure", Total: 1}))
	for range 2 {
		b.must(b.SetHardware(ctx, j.Ref(), *spec(j).To, []string{"boot_from"}))
	}
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.CDROM, now.System.BootFrom, now.Pending}, []any{"one", from, []string{"boot_from"}})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "configure"}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.want(b.SetHardware(ctx, j.Ref(), *spec(j).Was, nil), seedbed.ErrStale)
	b.want(removal("one"), seedbed.ErrInUse, "the CD-ROM drive of instance web1")

	get(b.Accept(ctx, setOf(i, seedbed.HardwareChange{CDROM: new("two"), VNC: &yes})))(b)
	j = b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "configure", Total: 1}))
	b.must(b.SetHardware(ctx, j.Ref(), *spec(j).To, []string{"vnc"}))
	b.equal(get(b.Instance(ctx, i.ID))(b).Pending, []string{"boot_from", "vnc"})
	b.want(removal("one"), seedbed.ErrInUse, "a change of the CD-ROM drive") // it may come back
	b.must(b.Undo(ctx, j.Ref(), "no"))
	b.must(b.SetHardware(ctx, j.Ref(), *spec(j).Was, nil))
	b.must(b.Undone(ctx, j.Ref(), "configure", ""))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack}))
	now = get(b.Instance(ctx, i.ID))(b)
	b.equal([]any{now.CDROM, now.System.VNC, now.Pending}, []any{"one", false, []string{"boot_from"}})
	get(b.SetInstanceState(ctx, now, seedbed.InstanceStopped))(b)
	b.equal(len(get(b.Instance(ctx, i.ID))(b).Pending), 0)
	b.must(removal("two"))

	for says, c := range map[string]seedbed.HardwareChange{
		"is being removed": {CDROM: new("two")}, `"none" does not exist`: {CDROM: new("none")}, "expected an image that": {CDROM: new("debian")},
		"has that already": {BootFrom: &from},
	} {
		_, err := b.Accept(ctx, setOf(i, c))
		b.want(err, seedbed.ErrInvalid, says)
	}
	j = b.claim() // the removal of the image
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.remove(i.ID)
	b.must(removal("one"))
}

func testVolumeRenamed(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	changes := func(what string, do func()) {
		b.Helper()
		was := get(b.Instance(ctx, i.ID))(b).Revision
		do()
		if now := get(b.Instance(ctx, i.ID))(b).Revision; now <= was {
			b.Errorf("revision %d after %d, though a volume is %s", now, was, what)
		}
	}
	b.volume("data")
	changes("promised", func() { get(b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, "data", true)))(b) })
	changes("renamed", func() { get(b.RenameVolume(ctx, seedbed.DefaultProject, "data", "archive"))(b) })
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "attach", Total: 2}))
	b.must(b.Undo(ctx, ref, "no"))
	changes("free", func() { b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"})) })
	_, err := b.RenameVolume(ctx, seedbed.DefaultProject, i.Volumes[0].Name, "root")
	b.want(err, seedbed.ErrConflict, `disk 0 of instance "web1"`)
	get(b.Accept(ctx, volumeRemoveOf("archive")))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"}))
	_, err = b.RenameVolume(ctx, seedbed.DefaultProject, "archive", "data")
	b.want(err, seedbed.ErrConflict, "remove it again (seedbed volume remove archive)")
}
