package storetest

import (
	"context"
	"encoding/json"

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
