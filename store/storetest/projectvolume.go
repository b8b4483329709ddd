package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"seedbed"
)

var projectVolumeCases = map[string]func(*bench){
	"made and removed":  testProjectVolume,
	"attached":          testAttached,
	"kept":              testKeptVolumes,
	"quota of a volume": testVolumeQuota,
	"attach retried":    testAttachRetried,
	"name in the pool":  testNameInPool,
	"kept whole":        testKeptWhole,
	"rebuilt":           testRebuiltAttached,
	"too many disks":    testTooManyDisks,
	"renamed":           testVolumeRenamed,
	"copied":            testVolumeCopied,
	"image of":          testImageOfVolume,
}

func volumeAddOf(name string) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobVolumeAdd, Node: node},
		Volume: &seedbed.ProjectVolume{ID: seedbed.NewVolumeID(), Name: name, Pool: "default", Size: seedbed.GiB, Node: node}}
}

func volumeRemoveOf(name string) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobVolumeRemove, Project: seedbed.DefaultProject,
		Subject: name, Node: node}}
}

func attachmentOf(kind seedbed.JobKind, id seedbed.InstanceID, name string, keep bool) seedbed.Acceptance {
	spec, _ := json.Marshal(seedbed.VolumeJob{Name: name, Keep: keep})
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, Instance: id, Spec: spec}}
}

// volume makes a volume whose job has succeeded.
func (b *bench) volume(name string) seedbed.ProjectVolume {
	b.Helper()
	ctx := context.Background()
	get(b.Accept(ctx, volumeAddOf(name)))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	return get(b.ProjectVolume(ctx, seedbed.DefaultProject, name))(b)
}

func (b *bench) claimRef() seedbed.JobRef {
	b.Helper()
	j := b.claim()
	return j.Ref()
}

func testProjectVolume(b *bench) {
	ctx := context.Background()
	b.world()
	a := volumeAddOf("data")
	a.Volume.Image, a.Volume.Size = "debian", 0
	get(b.Accept(ctx, a))(b)
	v := get(b.ProjectVolume(ctx, seedbed.DefaultProject, "data"))(b)
	b.equal([]any{v.State, v.Owner, v.Volume, v.Node, v.Image, v.Size > 0},
		[]any{seedbed.VolumeMaking, seedbed.InstanceID(v.ID), v.ID, node, "debian", true})
	_, err := b.Accept(ctx, volumeAddOf("data"))
	b.want(err, seedbed.ErrExists)
	_, err = b.Accept(ctx, volumeRemoveOf("data"))
	b.want(err, seedbed.ErrInUse, a.Job.ID.Short())
	_, err = b.Accept(ctx, imageRemoveOf("debian"))
	b.want(err, seedbed.ErrInUse, "volume data")
	other := volumeAddOf("other")
	other.Volume.Image, other.Volume.Size = "none", 0
	_, err = b.Accept(ctx, other)
	b.want(err, seedbed.ErrInvalid, "none")
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal(get(b.VolumeOf(ctx, v.ID))(b).State, seedbed.VolumeFree)
	b.equal(get(b.VolumeOwners(ctx))(b), []seedbed.InstanceID{v.Owner})

	undone := volumeAddOf("undone") // and given up before it began
	get(b.Accept(ctx, undone))(b)
	b.must(b.CancelJob(ctx, undone.Job.ID))
	_, err = b.ProjectVolume(ctx, seedbed.DefaultProject, "undone")
	b.want(err, seedbed.ErrNotFound)

	i := b.instance("web1")
	all := get(b.ProjectVolumes(ctx, seedbed.AllProjects()))(b)
	b.equal([]any{len(all), all[0].Name, all[1].Name, all[1].Holder, all[1].Device}, []any{2, "data", i.Volumes[0].Name, "web1", "vda"})
	get(b.Accept(ctx, volumeRemoveOf("data")))(b)
	_, err = b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, "data", true))
	b.want(err, seedbed.ErrInUse)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"}))
	get(b.Accept(ctx, volumeRemoveOf("data")))(b) // again
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err = b.Accept(ctx, volumeRemoveOf("data"))
	b.want(err, seedbed.ErrNotFound)
}

// attached attaches a volume to an instance.
func (b *bench) attached(i seedbed.Instance, name string, keep bool) {
	b.Helper()
	ctx := context.Background()
	get(b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, name, keep)))(b)
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "attach", Total: 1}))
	b.must(b.SetAttachment(ctx, ref, seedbed.VolumeAttached))
	b.must(b.SetAttachment(ctx, ref, seedbed.VolumeAttached))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
}

func testAttached(b *bench) {
	ctx := context.Background()
	b.world()
	i, other := b.instance("web1"), b.instance("web2")
	v := b.volume("data")
	get(b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, "data", true)))(b) // which is undone
	_, err := b.Accept(ctx, volumeRemoveOf("data"))
	b.want(err, seedbed.ErrInUse, "web1")
	_, err = b.Accept(ctx, attachmentOf(seedbed.JobAttach, other.ID, "data", true))
	b.want(err, seedbed.ErrInUse, "web1")
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "attach", Total: 1}))
	b.must(b.Undo(ctx, ref, "no place"))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no place"}))
	b.equal(get(b.VolumeOf(ctx, v.ID))(b).State, seedbed.VolumeFree)

	b.attached(i, "data", true)
	v = get(b.VolumeOf(ctx, v.ID))(b)
	b.equal([]any{v.State, v.Holder, v.Device, v.Keep}, []any{seedbed.VolumeAttached, "web1", "vdb", true})
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal(now.Attached, []seedbed.ProjectVolume{v})
	if now.Revision <= i.Revision {
		b.Errorf("the instance has revision %d, and had %d", now.Revision, i.Revision)
	}
	b.equal(get(b.Instance(ctx, other.ID))(b).Attached, []seedbed.ProjectVolume(nil))
	_, err = b.Accept(ctx, attachmentOf(seedbed.JobDetach, other.ID, "data", true))
	b.want(err, seedbed.ErrConflict, "web2")
	_, err = b.Accept(ctx, volumeJob(seedbed.JobForget, i.ID, ""))
	b.want(err, seedbed.ErrInUse, "detach")
	b.volume("other")
	_, err = b.RenameVolume(ctx, seedbed.DefaultProject, "data", "other")
	b.want(err, seedbed.ErrExists)
	_, err = b.RenameVolume(ctx, seedbed.DefaultProject, "none", "x")
	b.want(err, seedbed.ErrNotFound)
	b.equal(get(b.RenameVolume(ctx, seedbed.DefaultProject, "data", "archive"))(b).Holder, "web1")
	b.equal(get(b.RenameVolume(ctx, seedbed.DefaultProject, "archive", "data"))(b), get(b.VolumeOf(ctx, v.ID))(b))
	get(b.Accept(ctx, attachmentOf(seedbed.JobDetach, i.ID, "data", true)))(b)
	_, err = b.Accept(ctx, volumeJob(seedbed.JobFlatten, i.ID, ""))
	b.want(err, seedbed.ErrInUse)
	ref = b.claimRef()
	b.must(b.SetAttachment(ctx, ref, seedbed.VolumeDetaching))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
	v = get(b.VolumeOf(ctx, v.ID))(b)
	b.equal([]any{v.State, v.Holder, v.Bus}, []any{seedbed.VolumeFree, "", ""})
}

func testKeptVolumes(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.volume("kept")
	b.volume("lost")
	b.attached(i, "kept", true)
	b.attached(i, "lost", false)
	a := removeOf(i.ID)
	a.Job.Spec, _ = json.Marshal(seedbed.Removal{KeepDisks: true})
	get(b.Accept(ctx, a))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	all := get(b.ProjectVolumes(ctx, seedbed.AllProjects()))(b)
	if len(all) != 2 {
		b.Fatalf("left are %+v", all)
	}
	b.equal([]any{all[0].Name, all[0].State, all[1].Name, all[1].State, all[1].Owner, all[1].Volume, all[1].Size},
		[]any{"kept", seedbed.VolumeFree, "web1-0", seedbed.VolumeFree, i.ID, i.Volumes[0].Name, i.Volumes[0].Size})
}

// attachKept returns an attach job that has failed, and was not undone.
func (b *bench) attachKept(i seedbed.Instance, name string) seedbed.JobID {
	b.Helper()
	ctx := context.Background()
	a := attachmentOf(seedbed.JobAttach, i.ID, name, true)
	get(b.Accept(ctx, a))(b)
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "attach", Total: 2}))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobFailed, Error: "no room", Keep: true}))
	return a.Job.ID
}

// A job continues only while its instance still has the volume.
func testAttachRetried(b *bench) {
	ctx := context.Background()
	b.world()
	i, other := b.instance("web1"), b.instance("web2")
	b.volume("data")
	first := b.attachKept(i, "data")
	b.equal(get(b.ResumeJob(ctx, first))(b).State, seedbed.JobQueued)
	ref := b.claimRef()
	b.must(b.Step(ctx, ref, seedbed.Step{Next: "attach", Total: 2}))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobFailed, Error: "no room", Keep: true}))
	get(b.Accept(ctx, attachmentOf(seedbed.JobDetach, i.ID, "data", true)))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err := b.ResumeJob(ctx, first) // while it is free
	b.want(err, seedbed.ErrConflict, `volume "data" is no longer that of instance "web1"`)
	b.attached(other, "data", true)
	_, err = b.ResumeJob(ctx, first)
	b.want(err, seedbed.ErrConflict, `volume "data" is no longer that of instance "web1"`)

	a := attachmentOf(seedbed.JobDetach, other.ID, "data", true)
	get(b.Accept(ctx, a))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no", Keep: true}))
	get(b.Accept(ctx, attachmentOf(seedbed.JobDetach, other.ID, "data", true)))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.attached(i, "data", true)
	_, err = b.ResumeJob(ctx, a.Job.ID)
	b.want(err, seedbed.ErrConflict, `that of instance "web2"`)
	get(b.Accept(ctx, attachmentOf(seedbed.JobDetach, i.ID, "data", true)))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	get(b.Accept(ctx, volumeRemoveOf("data")))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err = b.ResumeJob(ctx, a.Job.ID)
	b.want(err, seedbed.ErrNotFound)
}

// removed removes an instance whose disks are kept.
func (b *bench) removed(i seedbed.Instance) {
	b.Helper()
	get(b.Accept(context.Background(), keepingDisks(i)))(b)
	b.must(b.Finish(context.Background(), b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
}

func keepingDisks(i seedbed.Instance) seedbed.Acceptance {
	a := removeOf(i.ID)
	a.Job.Spec, _ = json.Marshal(seedbed.Removal{KeepDisks: true})
	return a
}

// A script chooses the names of its disks in the pool. It cannot choose those of the volumes that earlier disks have become.
func testNameInPool(b *bench) {
	ctx := context.Background()
	b.world()
	v := seedbed.Volume{Pool: "default", Name: "data_sda", Size: seedbed.GiB}
	made := func(name string) seedbed.Job {
		a, _ := scriptedOf(name)
		get(b.Accept(ctx, a))(b)
		return b.claim()
	}
	j := made("web1")
	b.must(b.AddVolume(ctx, j.Ref(), v))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	b.removed(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b))
	j = made("web1")
	b.want(b.AddVolume(ctx, j.Ref(), v), seedbed.ErrExists,
		`data_sda of pool default is volume "web1-0" of project "default": remove it first (seedbed volume remove web1-0)`)
	own := v
	own.Name = "data_sdb"
	b.must(b.AddVolume(ctx, j.Ref(), own))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	i := get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b)
	a := rebuildOf(i)
	_, run := scriptedOf("web1")
	a.Rebuild.Volumes, a.Rebuild.Image, a.Script = nil, "", &run
	get(b.Accept(ctx, a))(b)
	j = b.claim()
	b.want(b.AddVolume(ctx, j.Ref(), v), seedbed.ErrExists, `volume "web1-0"`)
	b.must(b.Undo(ctx, j.Ref(), "no"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	b.removed(i) // whose disk cannot be called web1-0 either
	all := get(b.ProjectVolumes(ctx, seedbed.AllProjects()))(b)
	b.equal([]any{len(all), all[0].Name, all[0].Volume, all[1].Name, all[1].Volume}, []any{2, "web1-0", "data_sda", "web1-0-2", "data_sdb"})

	get(b.CreateProject(ctx, seedbed.Project{Name: "acme"}))(b)
	foreign, _ := scriptedOf("web1")
	foreign.Instance.Project, foreign.Instance.NICs = "acme", nil
	get(b.Accept(ctx, foreign))(b)
	j = b.claim()
	b.want(b.AddVolume(ctx, j.Ref(), v), seedbed.ErrExists, "data_sda of pool default is a volume of another project")
}

// Disks are kept only if they are sure to be there, and what rebuilds left behind is not kept.
func testKeptWhole(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	_, err := b.Accept(ctx, keepingDisks(i))
	b.want(err, seedbed.ErrConflict, j.ID.Short(), "some may not exist")
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceProvisioning)
	b.must(b.Finish(ctx, j.Ref(),
		seedbed.JobResult{State: seedbed.JobFailed, Error: "no room", Keep: true, InstanceState: seedbed.InstanceFailed}))
	_, err = b.Accept(ctx, keepingDisks(i))
	b.want(err, seedbed.ErrConflict, "create job "+j.ID.Short()+" is failed")
	get(b.ResumeJob(ctx, j.ID))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))

	b.image("other")
	i = get(b.Instance(ctx, i.ID))(b)
	next := rebuildOf(i)
	get(b.Accept(ctx, next))(b)
	ref := b.claimRef()
	b.must(b.Exchange(ctx, ref, seedbed.RebuildNext))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobFailed, Error: "the former disk is busy", Keep: true}))
	for range 2 { // also if it fails, and is requested again
		get(b.Accept(ctx, keepingDisks(i)))(b)
		removal := b.claim()
		var how seedbed.Removal
		b.must(json.Unmarshal(removal.Spec, &how))
		b.equal(how, seedbed.Removal{KeepDisks: true, Left: i.Volumes})
		b.equal(get(b.Instance(ctx, i.ID))(b).Volumes, next.Rebuild.Volumes)
		b.must(b.Finish(ctx, removal.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"}))
	}
	b.removed(i)
	var names []string
	for _, v := range get(b.ProjectVolumes(ctx, seedbed.AllProjects()))(b) {
		names = append(names, v.Volume)
	}
	b.equal(names, []string{next.Rebuild.Volumes[0].Name, next.Rebuild.Volumes[1].Name})

	other := b.instance("web2")
	get(b.Accept(ctx, removeOf(other.ID)))(b)
	b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"}))
	_, err = b.Accept(ctx, keepingDisks(other))
	b.want(err, seedbed.ErrConflict, "remove job", "is failed")
}

// A volume has the place that it had before, if the rebuild that took it is undone.
func testRebuiltAttached(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	i := b.instance("web1")
	for _, name := range []string{"data", "more"} {
		b.volume(name)
		b.attached(i, name, true)
	}
	devices := func() (all []string) {
		for _, v := range get(b.Instance(ctx, i.ID))(b).Attached {
			all = append(all, v.Name+" "+v.Device)
		}
		slices.Sort(all)
		return all
	}
	for range 2 {
		b.equal(devices(), []string{"data vdb", "more vdc"})
		get(b.Accept(ctx, rebuildOf(get(b.Instance(ctx, i.ID))(b))))(b) // to two disks
		ref := b.claimRef()
		b.must(b.Step(ctx, ref, seedbed.Step{Next: "redefine", Total: 1}))
		for range 2 {
			b.must(b.Exchange(ctx, ref, seedbed.RebuildNext))
			b.equal(devices(), []string{"data vdd", "more vdc"})
		}
		b.must(b.Undo(ctx, ref, "no"))
		for range 2 {
			b.must(b.Exchange(ctx, ref, seedbed.RebuildBefore))
			b.equal(devices(), []string{"data vdb", "more vdc"})
		}
		b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	}
}

func testTooManyDisks(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	i := b.instance("web1")
	for n := range seedbed.MaxDisks - 1 {
		name := "data" + strconv.Itoa(n)
		b.volume(name)
		b.attached(i, name, true)
	}
	b.volume("more")
	_, err := b.Accept(ctx, attachmentOf(seedbed.JobAttach, i.ID, "more", true))
	b.want(err, seedbed.ErrConflict, "16 disks")
	_, err = b.Accept(ctx, rebuildOf(i)) // to two disks
	b.want(err, seedbed.ErrConflict, "with 2 disks of its own and 15 that are attached, the instance has more than 16", "volume detach")
	a := rebuildOf(i)
	a.Rebuild.Volumes = a.Rebuild.Volumes[:1]
	get(b.Accept(ctx, a))(b)
}
