package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"seedbed"
)

var projectQuotaCases = map[string]func(*bench){
	"of all resources":     testProjectQuota,
	"of disks in one pool": testPoolQuota,
	"of jobs":              testJobQuota,
	"of resizes":           testProjectResizeQuota,
	"what is used":         testProjectUse,
	"invalid":              testInvalidQuota,
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
	b.equal(get(b.ProjectUse(ctx, "acme"))(b), seedbed.Use{DiskIn: map[string]seedbed.Bytes{}})
	get(b.Accept(ctx, inProject("acme", "web1")))(b)
	get(b.Accept(ctx, createOf("web1")))(b)
	b.equal(get(b.ProjectUse(ctx, "acme"))(b), seedbed.Use{
		Instances: 1, VCPUs: 2, Memory: seedbed.GiB, Disk: 10 * seedbed.GiB, DiskIn: map[string]seedbed.Bytes{"default": 10 * seedbed.GiB},
		Addresses: 1, Jobs: 1,
	})
}

func testInvalidQuota(b *bench) {
	ctx := context.Background()
	for words, q := range map[string]seedbed.ProjectQuota{
		"is negative":                    {Jobs: -1},
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
