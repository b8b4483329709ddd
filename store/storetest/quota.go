package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"seedbed"
)

var tokenQuotaCases = map[string]func(*bench){
	"rebuild and quota":                 testRebuildQuota,
	"rebuild to less and quota":         testRebuildQuotaBack,
	"rebuild that goes on and quota":    testRebuildQuotaResumed,
	"volumes of a script and quota":     testScriptQuota,
	"script of a rebuild and quota":     testScriptRebuildQuota,
	"volumes of a script without quota": testScriptUnbound,
}

// made returns a running instance with 10 GiB that was made with a token.
func (b *bench) made(by seedbed.Token, name string) seedbed.Instance {
	b.Helper()
	a := createOf(name)
	get(b.Accept(byToken(by), a))(b)
	j := b.claim()
	b.must(b.Finish(context.Background(), j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	return get(b.Instance(context.Background(), a.Instance.ID))(b)
}

// sized returns a rebuild to one disk of that size, and to vcpus and memory.
func sized(i seedbed.Instance, size seedbed.Bytes, vcpus int, memory seedbed.Bytes) seedbed.Acceptance {
	a := rebuildOf(i)
	a.Rebuild.Volumes = []seedbed.Volume{{Name: string(i.ID) + "-0-new", Pool: "default", Size: size, Image: "other"}}
	a.Rebuild.VCPUs, a.Rebuild.Memory = vcpus, memory
	return a
}

// What a rebuild adds to its instance counts from when the job was accepted.
func testRebuildQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	ci := b.token("ci", seedbed.TokenQuota{VCPUs: 8, Memory: 4 * seedbed.GiB, Disk: 35 * seedbed.GiB})
	i := b.made(ci, "web1")
	_, err := b.Accept(ctx, sized(i, 40*seedbed.GiB, 2, seedbed.GiB))
	b.want(err, seedbed.ErrForbidden, `token "ci"`, "disk")
	get(b.Accept(ctx, sized(i, 30*seedbed.GiB, 7, 4*seedbed.GiB)))(b)
	refused := func() {
		b.Helper()
		_, err := b.Accept(byToken(ci), createOf("web2")) // 2 vcpus, 1GiB, 10GiB
		b.want(err, seedbed.ErrForbidden, "vcpus: it has 7", "memory: it has 4GiB",
			"disk: it has 30GiB, this wants 10GiB more, and 35GiB is the most")
	}
	refused()
	j := b.claim()
	refused()
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	refused() // once, not twice
	b.must(b.Undo(ctx, j.Ref(), "no"))
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildBefore))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	get(b.Accept(byToken(ci), createOf("web2")))(b)
}

// What a rebuild removes from its instance counts until the rebuild can no longer be undone.
func testRebuildQuotaBack(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	ci := b.token("ci", seedbed.TokenQuota{Disk: 15 * seedbed.GiB})
	get(b.Accept(ctx, sized(b.made(ci, "web1"), seedbed.GiB, 2, seedbed.GiB)))(b)
	j := b.claim()
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	_, err := b.Accept(byToken(ci), createOf("web2"))
	b.want(err, seedbed.ErrForbidden, "disk: it has 10GiB")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	get(b.Accept(byToken(ci), createOf("web2")))(b)
}

// What a failed rebuild would add is available to others, and must be available again when it is
// resumed.
func testRebuildQuotaResumed(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	ci := b.token("ci", seedbed.TokenQuota{Disk: 40 * seedbed.GiB})
	get(b.Accept(ctx, sized(b.made(ci, "web1"), 30*seedbed.GiB, 2, seedbed.GiB)))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no"}))
	other := b.made(ci, "web2")
	third := b.made(ci, "web3")
	_, err := b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrForbidden, "disk: it has 20GiB, this wants 30GiB more")
	get(b.Accept(ctx, removeOf(third.ID)))(b)
	k := b.claim()
	b.must(b.Finish(ctx, k.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	get(b.ResumeJob(ctx, j.ID))(b)

	// After the instance was exchanged, no quota is checked.
	j = b.claim()
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no"}))
	_, err = b.Accept(ctx, sized(other, 11*seedbed.GiB, 2, seedbed.GiB))
	b.want(err, seedbed.ErrForbidden, "disk: it has 30GiB")
	get(b.ResumeJob(ctx, j.ID))(b)
}

// The disks that a script adds count like those of a profile.
func testScriptQuota(b *bench) {
	ctx := context.Background()
	b.world()
	ci := b.token("ci", seedbed.TokenQuota{Disk: 15 * seedbed.GiB})
	a, _ := scriptedOf("web1")
	get(b.Accept(byToken(ci), a))(b)
	j := b.claim()
	v := seedbed.Volume{Pool: "default", Name: "web1_sda", Size: 10 * seedbed.GiB}
	b.must(b.AddVolume(ctx, j.Ref(), v))
	b.must(b.AddVolume(ctx, j.Ref(), v))
	w := seedbed.Volume{Pool: "default", Name: "web1_sdb", Size: 6 * seedbed.GiB}
	b.want(b.AddVolume(ctx, j.Ref(), w), seedbed.ErrForbidden, `volume web1_sdb of instance "web1"`,
		`token "ci"`, "disk: it has 10GiB, this wants 6GiB more, and 15GiB is the most")
	b.equal(len(get(b.Instance(ctx, j.Instance))(b).Volumes), 1)
	w.Size = 5 * seedbed.GiB
	b.must(b.AddVolume(ctx, j.Ref(), w))
	_, err := b.Accept(byToken(ci), createOf("web2"))
	b.want(err, seedbed.ErrForbidden, "disk: it has 15GiB")
}

func testScriptRebuildQuota(b *bench) {
	ctx := context.Background()
	b.world()
	ci := b.token("ci", seedbed.TokenQuota{Disk: 15 * seedbed.GiB})
	_, run := scriptedOf("web1")
	a := rebuildOf(b.made(ci, "web1"))
	a.Rebuild.Volumes, a.Rebuild.Image, a.Script = nil, "", &run
	spec, _ := json.Marshal(seedbed.RebuildSpec{Profile: "big"})
	a.Job.Spec = spec
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	// The old disk is removed, so its size counts once.
	b.must(b.AddVolume(ctx, j.Ref(), seedbed.Volume{Pool: "default", Name: "web1_sda-new", Size: 14 * seedbed.GiB}))
	more := seedbed.Volume{Pool: "default", Name: "web1_sdb-new", Size: 2 * seedbed.GiB}
	b.want(b.AddVolume(ctx, j.Ref(), more), seedbed.ErrForbidden, `volume web1_sdb-new of instance "web1"`,
		"disk: it has 14GiB, this wants 2GiB more")
	b.equal(len(get(b.Rebuilding(ctx, j.ID))(b).Next.Volumes), 1)
}

// Only the token's current quota for disks limits them.
func testScriptUnbound(b *bench) {
	ctx := context.Background()
	b.world()
	ci := b.token("ci", seedbed.TokenQuota{Instances: 1})
	a, _ := scriptedOf("web1")
	get(b.Accept(byToken(ci), a))(b)
	j := b.claim()
	b.must(b.AddVolume(ctx, j.Ref(), seedbed.Volume{Pool: "default", Name: "web1_sda", Size: 10 * seedbed.TiB}))
}

var projectQuotaCases = map[string]func(*bench){
	"of all resources":      testProjectQuota,
	"of disks in one pool":  testPoolQuota,
	"of jobs":               testJobQuota,
	"of resizes":            testProjectResizeQuota,
	"of objects":            testObjectQuota,
	"parts of rules":        testProjectParts,
	"of floating addresses": testFloatingQuota,
	"of images":             testImageQuota,
	"of snapshots":          testSnapshotQuota,
	"snapshots of rebuilds": testRebuiltSnapshots,
	"what is used":          testProjectUse,
	"invalid":               testInvalidQuota,
}

// bounded adds the project acme with a quota.
func (b *bench) bounded(q seedbed.ProjectQuota) seedbed.Project {
	b.Helper()
	return get(b.CreateProject(context.Background(), seedbed.Project{Name: "acme", Quota: q}))(b)
}

func testProjectQuota(b *bench) {
	ctx := context.Background()
	b.world()
	acme := b.bounded(seedbed.ProjectQuota{
		TokenQuota: seedbed.TokenQuota{Instances: 3, VCPUs: 5, Memory: 3 * seedbed.GiB, Disk: 25 * seedbed.GiB}, Addresses: 2,
	})
	b.equal(get(b.Project(ctx, "acme"))(b), acme)
	get(b.Accept(ctx, inProject("acme", "web1")))(b) // 2 vcpus, 1GiB, 10GiB
	get(b.Accept(ctx, inProject("acme", "web2")))(b)
	_, err := b.Accept(ctx, inProject("acme", "web3"))
	b.want(err, seedbed.ErrForbidden, `project "acme" is over its quota of vcpus: it has 4, this wants 2 more, and 5 is the most`,
		"of disk: it has 20GiB, this wants 10GiB more, and 25GiB is the most", "of addresses: it has 2, this wants 1 more, and 2 is the most")
	_, err = b.InstanceByName(ctx, seedbed.Named("acme", "web3"))
	b.want(err, seedbed.ErrNotFound)
	get(b.Accept(ctx, createOf("web3")))(b) // the quota of one project does not concern another

	// It counts whoever asks: with a token, and by a hook.
	_, err = b.Accept(byToken(b.token("free", seedbed.TokenQuota{})), inProject("acme", "web3"))
	b.want(err, seedbed.ErrForbidden, `project "acme"`)
	get(b.CreateHook(ctx, ciHook()))(b)
	delivered := inProject("acme", "web3")
	delivered.Delivery = delivery("msg_1", "x")
	_, err = b.Accept(ctx, delivered)
	b.want(err, seedbed.ErrForbidden, `project "acme"`)

	// It applies from when it is set. What is there already stays.
	get(b.ChangeProject(ctx, "acme", func(p *seedbed.Project) error {
		p.Quota = seedbed.ProjectQuota{TokenQuota: seedbed.TokenQuota{Instances: 1}}
		return nil
	}))(b)
	_, err = b.Accept(ctx, inProject("acme", "web3"))
	b.want(err, seedbed.ErrForbidden, "instances: it has 2, this wants 1 more, and 1 is the most")
	get(b.ChangeProject(ctx, "acme", func(p *seedbed.Project) error {
		p.Quota = seedbed.ProjectQuota{}
		return nil
	}))(b)
	get(b.Accept(ctx, inProject("acme", "web3")))(b)
}

func testPoolQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{DiskIn: map[string]seedbed.Bytes{"default": 15 * seedbed.GiB, "other": seedbed.GiB}})
	get(b.Accept(ctx, inProject("acme", "web1")))(b)
	_, err := b.Accept(ctx, inProject("acme", "web2"))
	b.want(err, seedbed.ErrForbidden, "disk in pool default: it has 10GiB, this wants 10GiB more, and 15GiB is the most")
}

// testVolumeMoved takes volumes to a pool whose quota has room for one of them.
func testVolumeMoved(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{TokenQuota: seedbed.TokenQuota{Disk: 2 * seedbed.GiB},
		DiskIn: map[string]seedbed.Bytes{"other": 1536 * seedbed.MiB}})
	named := func(name string) seedbed.ProjectVolume {
		b.Helper()
		return get(b.ProjectVolume(ctx, "acme", name))(b)
	}
	for _, name := range []string{"first", "second"} {
		a := volumeAddOf(name)
		a.Job.Project, a.Volume.Image = "acme", "debian"
		get(b.Accept(ctx, a))(b)
		b.must(b.Finish(ctx, b.claimRef(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	}
	moveOf := func(name string, to *seedbed.VolumePlace) seedbed.Acceptance {
		a := volumeResizeOf("", name, 0)
		a.Job.Kind, a.Job.Project = seedbed.JobVolumeMove, "acme"
		a.Job.Spec, _ = json.Marshal(seedbed.VolumeJob{Name: name, Place: to})
		return a
	}
	for _, bad := range []*seedbed.VolumePlace{nil, {Pool: "default"}} {
		_, err := b.Accept(ctx, moveOf("first", bad))
		b.want(err, seedbed.ErrInvalid)
	}
	get(b.Accept(ctx, moveOf("first", &seedbed.VolumePlace{Pool: "other"})))(b)
	get(b.Accept(ctx, moveOf("second", &seedbed.VolumePlace{Pool: "other"})))(b)
	b.equal(named("first").State, seedbed.VolumeChanging)
	copied := copyAddOf("copy", named("first"))
	copied.Job.Project = "acme"
	_, err := b.Accept(ctx, copied)
	b.want(err, seedbed.ErrInUse)
	was, to := named("first").Place(), seedbed.VolumePlace{Pool: "other", Node: node}
	one, two := b.claim(), b.claim()
	var spec seedbed.VolumeJob
	b.must(json.Unmarshal(one.Spec, &spec))
	b.equal([]any{*spec.Former, *spec.Place, one.Pool}, []any{was, to, "default"})
	for _, j := range []seedbed.Job{one, two} {
		b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "move", Total: 3}))
	}
	for range 2 {
		b.must(b.SetVolumePlace(ctx, one.Ref(), to))
	}
	b.equal(named("first").Place(), to)
	// It may have to be the clone in its former pool again.
	_, err = b.Accept(ctx, seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: "debian"}})
	b.want(err, seedbed.ErrInUse, "first")
	b.want(b.SetVolumePlace(ctx, two.Ref(), to), seedbed.ErrForbidden, "disk in pool other: it has 1GiB, this wants 1GiB more")
	b.want(b.SetVolumeSize(ctx, one.Ref(), seedbed.TiB), seedbed.ErrConflict)
	b.must(b.Undo(ctx, one.Ref(), "no"))
	b.must(b.SetVolumePlace(ctx, one.Ref(), was))
	b.must(b.Finish(ctx, one.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	b.equal([]any{named("first").Place(), named("first").State, named("first").Image}, []any{was, seedbed.VolumeFree, "debian"})
	b.must(b.SetVolumePlace(ctx, two.Ref(), to))
	b.must(b.Finish(ctx, two.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.equal([]any{named("second").Place(), named("second").State, named("second").Image}, []any{to, seedbed.VolumeFree, ""})
}

func testJobQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{Jobs: 2})
	get(b.Accept(ctx, inProject("acme", "web1")))(b)
	get(b.Accept(ctx, inProject("acme", "web2")))(b)
	_, err := b.Accept(ctx, inProject("acme", "web3"))
	b.want(err, seedbed.ErrFull, `project "acme" has 2 jobs that have not ended, which is its limit`)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, InstanceState: seedbed.InstanceFailed, Error: "no"}))
	get(b.Accept(ctx, removeOf(j.Instance)))(b)
	_, err = b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrInUse) // by its removal
	_, err = b.Accept(ctx, inProject("acme", "web3"))
	b.want(err, seedbed.ErrFull)

	other := b.claim()
	b.must(b.Finish(ctx, other.Ref(), seedbed.JobResult{State: seedbed.JobFailed, InstanceState: seedbed.InstanceFailed, Error: "no"}))
	get(b.Accept(ctx, inProject("acme", "web3")))(b)
	_, err = b.ResumeJob(ctx, other.ID)
	b.want(err, seedbed.ErrFull)
}

func testProjectResizeQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{TokenQuota: seedbed.TokenQuota{Disk: 25 * seedbed.GiB}})
	a := inProject("acme", "web1")
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	i := get(b.Instance(ctx, a.Instance.ID))(b)
	_, err := b.Accept(ctx, resizeOf(i, seedbed.ResizeSpec{Size: 30 * seedbed.GiB}))
	b.want(err, seedbed.ErrForbidden, `project "acme"`, "disk")
	get(b.Accept(ctx, resizeOf(i, seedbed.ResizeSpec{Size: 20 * seedbed.GiB})))(b)
	_, err = b.Accept(ctx, inProject("acme", "web2")) // what the resize will add counts
	b.want(err, seedbed.ErrForbidden, "disk: it has 20GiB, this wants 10GiB more, and 25GiB is the most")
	b.equal(get(b.ProjectUse(ctx, "acme"))(b).Disk, 20*seedbed.GiB)
}

func testProjectUse(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{})
	b.equal(get(b.ProjectUse(ctx, "acme"))(b), seedbed.Use{DiskIn: map[string]seedbed.Bytes{}, SecurityGroups: 1})
	get(b.Accept(ctx, inProject("acme", "web1")))(b)
	get(b.Accept(ctx, createOf("web1")))(b)
	b.equal(get(b.ProjectUse(ctx, "acme"))(b), seedbed.Use{
		Instances: 1, VCPUs: 2, Memory: seedbed.GiB, Disk: 10 * seedbed.GiB, DiskIn: map[string]seedbed.Bytes{"default": 10 * seedbed.GiB},
		Addresses: 1, Jobs: 1, SecurityGroups: 1,
	})
}

func testInvalidQuota(b *bench) {
	ctx := context.Background()
	for words, q := range map[string]seedbed.ProjectQuota{
		"is negative":                    {Jobs: -1},
		"negative: expected":             {ObjectQuota: seedbed.ObjectQuota{Hooks: -1}},
		"a quota is negative":            {TokenQuota: seedbed.TokenQuota{VCPUs: -1}},
		`pool "default" has 0: expected`: {DiskIn: map[string]seedbed.Bytes{"default": 0}},
		"pool name":                      {DiskIn: map[string]seedbed.Bytes{"a/b": 1}},
	} {
		_, err := b.CreateProject(ctx, seedbed.Project{Name: "acme", Quota: q})
		b.want(err, seedbed.ErrInvalid, words)
		_, err = b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
			p.Quota = q
			return nil
		})
		b.want(err, seedbed.ErrInvalid, words)
	}
}

// Many creates at once, of which the quota of the project has room for a few.
func testProjectQuotaRace(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{TokenQuota: seedbed.TokenQuota{Instances: 7}, Jobs: 9})
	var made atomic.Int64
	each(crowd, func(n int) {
		a := inProject("acme", nameN(n))
		_, err := b.Accept(ctx, a)
		switch {
		case err == nil:
			made.Add(1)
		case !errors.Is(err, seedbed.ErrForbidden):
			b.Error(err)
		}
	})
	b.equal(made.Load(), int64(7))
	u := get(b.ProjectUse(ctx, "acme"))(b)
	b.equal([]int64{u.Instances, u.Jobs}, []int64{7, 7})
}
