package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"seedbed"
	"seedbed/store"
)

// objectMakers make one object of a project each, by the plural of the kind.
var objectMakers = map[string]func(db *store.DB, project, name string) error{
	"tokens": func(db *store.DB, project, name string) error {
		t := seedbed.Token{Name: seedbed.Qualified(project, name), Project: project, Role: seedbed.RoleViewer}
		_, err := db.CreateToken(context.Background(), t, sha256.Sum256([]byte(t.Name)))
		return err
	},
	"networks": func(db *store.DB, project, name string) error {
		sum := sha256.Sum256([]byte(project + name))
		_, err := db.CreateNetwork(context.Background(), seedbed.Network{
			Name: seedbed.Qualified(project, name), Kind: seedbed.NetworkIsolated, Bridge: fmt.Sprintf("br%x", sum[:6]), MAC: newMAC(),
			Prefix: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"),
		})
		return err
	},
	"hooks": func(db *store.DB, project, name string) error {
		h := ciHook()
		h.Name, h.Project = seedbed.Qualified(project, name), project
		_, err := db.CreateHook(context.Background(), h)
		return err
	},
	"endpoints": func(db *store.DB, project, name string) error {
		e := endpointOf(name, "*")
		e.Name, e.Project = seedbed.Qualified(project, name), project
		_, err := db.CreateEndpoint(context.Background(), e)
		return err
	},
	"security groups": func(db *store.DB, project, name string) error {
		_, err := db.CreateSecurityGroup(context.Background(), seedbed.SecurityGroup{Name: seedbed.Qualified(project, name)})
		return err
	},
}

func testObjectQuota(b *bench) {
	ctx := context.Background()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Tokens: 2, Hooks: 2, Endpoints: 2, Networks: 2,
		SecurityGroups: 3}}) // a project begins with one
	for kind, make := range objectMakers {
		b.must(make(b.DB, "acme", "one"))
		b.must(make(b.DB, "acme", "two"))
		b.want(make(b.DB, "acme", "three"), seedbed.ErrForbidden,
			fmt.Sprintf(`project "acme" is over its quota of %s: it would have `, kind), " is the most")
		b.want(make(b.DB, "acme", "two"), seedbed.ErrExists) // also at the limit
		b.must(make(b.DB, seedbed.DefaultProject, "three"))  // the quota of one project does not concern another
	}
	u := get(b.ProjectUse(ctx, "acme"))(b)
	b.equal([]int64{u.Tokens, u.Hooks, u.Endpoints, u.Networks, u.SecurityGroups}, []int64{2, 2, 2, 2, 3})

	// What was removed makes room.
	b.must(b.DeleteToken(ctx, "acme/one"))
	b.must(b.DeleteHook(ctx, "acme/one"))
	b.must(b.DeleteEndpoint(ctx, "acme/one"))
	b.must(b.DeleteNetwork(ctx, "acme/one"))
	b.must(b.DeleteSecurityGroup(ctx, "acme/one"))
	for _, make := range objectMakers {
		b.must(make(b.DB, "acme", "three"))
	}

	// What is there already stays when a quota is lowered. Hooks of the configuration are not refused.
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota.Hooks = 1
		return nil
	}))(b)
	b.want(objectMakers["hooks"](b.DB, seedbed.DefaultProject, "four"), seedbed.ErrForbidden, `project "default"`, "would have 2")
	h := ciHook()
	h.Name = "declared"
	b.must(b.DeclareHooks(ctx, []seedbed.Hook{h}))
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Hooks, int64(2))
}

// Floating addresses count from their allocation to their release.
func testFloatingQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.must(b.lend("203.0.113.1-203.0.113.8"))
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Floating: 1}})
	allocate := func(project string) (seedbed.FloatingAddress, error) {
		return b.AllocateFloating(ctx, seedbed.FloatingAddress{Network: "default", Project: project})
	}
	first := get(allocate("acme"))(b)
	_, err := allocate("acme")
	b.want(err, seedbed.ErrForbidden, `project "acme" is over its quota of floating addresses: it would have 2, and 1 is the most`)
	get(allocate(seedbed.DefaultProject))(b)
	b.equal(get(b.ProjectUse(ctx, "acme"))(b).Floating, int64(1))
	b.must(b.ReleaseFloating(ctx, first.Addr))
	get(allocate("acme"))(b)
	for _, q := range []seedbed.ObjectQuota{{Floating: 257}, {SecurityGroups: 501}, {Floating: -1}, {SecurityGroups: -1}} {
		b.want(seedbed.ProjectQuota{ObjectQuota: q}.Check(), seedbed.ErrInvalid)
	}
}

// Images count from the acceptance of their import until they are removed.
func testImageQuota(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota.Images = 3
		return nil
	}))(b)
	a := importOf("one")
	get(b.Accept(ctx, a))(b)
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Images, int64(2))
	get(b.CreateScript(ctx, "ova", ""))(b)
	_, err := b.Accept(ctx, ovaOf("suite")) // of two disks
	b.want(err, seedbed.ErrForbidden, `project "default" is over its quota of images: it would have 4, and 3 is the most`)
	_, err = b.Image(ctx, seedbed.OVAImage("suite", "sda"))
	b.want(err, seedbed.ErrNotFound)
	get(b.Accept(ctx, importOf("two")))(b)
	_, err = b.Accept(ctx, importOf("three"))
	b.want(err, seedbed.ErrForbidden, "would have 4")
	_, err = b.Accept(ctx, importOf("two"))
	b.want(err, seedbed.ErrExists)
	b.must(b.CancelJob(ctx, a.Job.ID))
	get(b.Accept(ctx, importOf("three")))(b)
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Images, int64(3))
}

// Many objects of each kind are made at once, of which the quota has room for a few.
func testObjectQuotaRace(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Tokens: 7, Hooks: 6, Endpoints: 5, Networks: 3,
		SecurityGroups: 5}})
	get(b.ChangeProject(ctx, seedbed.DefaultProject, func(p *seedbed.Project) error {
		p.Quota.Images = 5
		return nil
	}))(b)
	made := map[string]*atomic.Int64{"images": {}}
	count := func(kind string, err error) {
		switch {
		case err == nil:
			made[kind].Add(1)
		case !errors.Is(err, seedbed.ErrForbidden):
			b.Error(kind, err)
		}
	}
	for kind, make := range objectMakers {
		made[kind] = new(atomic.Int64)
		each(crowd, func(n int) { count(kind, make(b.turn(), "acme", nameN(n))) })
	}
	each(crowd, func(n int) {
		_, err := b.Accept(ctx, importOf(nameN(n)))
		count("images", err)
	})
	u := get(b.ProjectUse(ctx, "acme"))(b)
	b.equal([]int64{u.Tokens, u.Hooks, u.Endpoints, u.Networks, u.SecurityGroups}, []int64{7, 6, 5, 3, 5})
	b.equal(get(b.ProjectUse(ctx, seedbed.DefaultProject))(b).Images, int64(5))
	for kind, most := range map[string]int64{"tokens": 7, "hooks": 6, "endpoints": 5, "networks": 3, "security groups": 4,
		"images": 4} { // there was one image
		b.equal(made[kind].Load(), most)
	}
}

// madeIn returns a running instance of a project.
func (b *bench) madeIn(project, name string) seedbed.Instance {
	b.Helper()
	a := inProject(project, name)
	get(b.Accept(context.Background(), a))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning})
	return get(b.Instance(context.Background(), a.Instance.ID))(b)
}

// end claims the next job and ends it, and returns it.
func (b *bench) end(o seedbed.JobResult) seedbed.Job {
	b.Helper()
	j := b.claim()
	if o.State == seedbed.JobRolledBack || o.State == seedbed.JobIncomplete {
		b.must(b.Undo(context.Background(), j.Ref(), o.Error))
	}
	b.must(b.Finish(context.Background(), j.Ref(), o))
	return j
}

// snapshots expects that acme has n snapshots.
func (b *bench) snapshots(n int64) {
	b.Helper()
	b.equal(get(b.ProjectUse(context.Background(), "acme"))(b).Snapshots, n)
}

// Snapshots count from the acceptance of the job that takes them until they are removed.
func testSnapshotQuota(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Snapshots: 2}})
	one, two := b.madeIn("acme", "web1"), b.madeIn("acme", "web2")
	other := b.instance("web1")
	done := seedbed.JobResult{State: seedbed.JobSucceeded}
	take := func(i seedbed.Instance, name string) {
		b.Helper()
		get(b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, name)))(b)
	}
	refused := func(i seedbed.Instance, name string) {
		b.Helper()
		_, err := b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, name))
		b.want(err, seedbed.ErrForbidden, `project "acme" is over its quota of snapshots: it would have 3, and 2 is the most`)
		b.equal(get(b.HasSnapshot(ctx, i.ID, name))(b), false)
	}
	take(one, "s1")
	b.snapshots(1)
	take(two, "s1")
	b.end(done)
	b.end(done)
	refused(one, "s2")
	b.snapshots(2)
	take(other, "s2") // the quota of one project does not concern another
	b.end(done)

	// One more job for a name that is there adds nothing, however it ends.
	take(one, "s1")
	b.end(seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"})
	b.snapshots(2)

	// What was removed makes room, and so does what was undone. What was left behind does not.
	get(b.Accept(ctx, volumeJob(seedbed.JobSnapshotRemove, one.ID, "s1")))(b)
	refused(two, "s2")
	b.end(done)
	b.snapshots(1)
	take(two, "s2")
	refused(one, "s1")
	b.end(seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"})
	take(one, "s1")
	incomplete := b.end(seedbed.JobResult{State: seedbed.JobIncomplete, Error: "no"})
	b.equal(get(b.HasSnapshot(ctx, one.ID, "s1"))(b), true)
	refused(two, "s2")
	get(b.UndoAgain(ctx, incomplete.ID))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	b.snapshots(1)

	// A snapshot that a later job took is not that of an earlier job which is undone.
	take(one, "s1")
	failed := b.end(seedbed.JobResult{State: seedbed.JobFailed, Error: "no", Keep: true})
	take(one, "s1")
	b.end(done)
	get(b.ResumeJob(ctx, failed.ID))(b)
	b.end(seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"})
	b.snapshots(2)

	// Snapshots go with their instance.
	get(b.Accept(ctx, removeOf(one.ID)))(b)
	b.end(seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
	b.snapshots(1)
	take(two, "s2")
}

// The snapshots of volumes that a rebuild has replaced count until that can no longer be undone.
func testRebuiltSnapshots(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	b.project("acme")
	i := b.madeIn("acme", "web1")
	take := func(name string) {
		b.Helper()
		get(b.Accept(ctx, volumeJob(seedbed.JobSnapshot, i.ID, name)))(b)
		b.end(seedbed.JobResult{State: seedbed.JobSucceeded})
	}
	rebuild := func() seedbed.JobRef {
		b.Helper()
		get(b.Accept(ctx, rebuildOf(get(b.Instance(ctx, i.ID))(b))))(b)
		j := b.claim()
		b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
		return j.Ref()
	}
	take("s1")
	ref := rebuild()
	b.snapshots(1)
	b.equal(get(b.HasSnapshot(ctx, i.ID, "s1"))(b), false)
	b.must(b.Undo(ctx, ref, "no"))
	b.must(b.Exchange(ctx, ref, seedbed.RebuildBefore))
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobRolledBack, Error: "no"}))
	b.equal(get(b.HasSnapshot(ctx, i.ID, "s1"))(b), true)

	ref = rebuild()
	b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobFailed, Error: "no", Keep: true}))
	take("s1") // of the new volumes
	b.snapshots(2)
	get(b.ResumeJob(ctx, ref.ID))(b)
	again := b.claim()
	b.must(b.Exchange(ctx, again.Ref(), seedbed.RebuildNext))
	b.snapshots(2)
	b.must(b.Finish(ctx, again.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	b.snapshots(1)
	b.equal(get(b.HasSnapshot(ctx, i.ID, "s1"))(b), true)
}

// Many snapshots are taken at once, of which the quota has room for a few.
func testSnapshotQuotaRace(b *bench) {
	ctx := context.Background()
	b.world()
	b.bounded(seedbed.ProjectQuota{ObjectQuota: seedbed.ObjectQuota{Snapshots: 7}})
	all := make([]seedbed.Instance, crowd)
	for n := range all {
		all[n] = b.madeIn("acme", nameN(n))
	}
	var taken atomic.Int64
	each(crowd, func(n int) {
		switch _, err := b.Accept(ctx, volumeJob(seedbed.JobSnapshot, all[n].ID, "s")); {
		case err == nil:
			taken.Add(1)
		case !errors.Is(err, seedbed.ErrForbidden):
			b.Error(err)
		}
	})
	b.equal(taken.Load(), int64(7))
	b.snapshots(7)
}

// A changed rate is seen by every program within a second.
func testProjectRates(b *bench) {
	ctx := context.Background()
	rates := func() (all [2]float64) {
		for n := range all { // by the one program and the other, if there is one
			all[n] = get(b.turn().ProjectRates(ctx, "acme"))(b).APIRate
		}
		return all
	}
	b.bounded(seedbed.ProjectQuota{RateQuota: seedbed.RateQuota{APIRate: 1}})
	b.equal(rates(), [2]float64{1, 1})
	for n := 2.0; n < 6; n++ {
		get(b.turn().ChangeProject(ctx, "acme", func(p *seedbed.Project) error {
			p.Quota.APIRate = n
			return nil
		}))(b)
		changed := time.Now()
		b.until("the rate is seen", func() bool { return rates() == [2]float64{n, n} })
		if took := time.Since(changed); took > time.Second {
			b.Errorf("the rate was seen after %s", took)
		}
	}
	_, err := b.ProjectRates(ctx, "none")
	b.want(err, seedbed.ErrNotFound)
}

// The rules of all groups of a project have a bounded number of parts, which another project does not share.
func testProjectParts(b *bench) {
	ctx := context.Background()
	b.world()
	b.project("acme")
	b.project("beta")
	var nested []string // as many parts as one group may have, nearly
	for i := range 22 {
		nested = append(nested, fmt.Sprintf("in tcp %d from 2001:db8::/%d", 1000+2*i, 60+i))
	}
	all := rules(b, nested...)
	most := seedbed.MaxProjectParts / seedbed.RuleParts(all)
	for n := range most {
		get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/" + nameN(n), Rules: all}))(b)
	}
	const tooMany = "for the rules of its project, expected at most 32768"
	_, err := b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/more", Rules: all})
	b.want(err, seedbed.ErrInvalid, `security group "acme/more": a node would need`, tooMany)
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "acme/more"}))(b)
	_, err = b.ChangeSecurityGroup(ctx, "acme/more", func(g *seedbed.SecurityGroup) error {
		g.Rules = all
		return nil
	})
	b.want(err, seedbed.ErrInvalid, tooMany)
	b.equal(len(get(b.SecurityGroup(ctx, "acme/more"))(b).Rules), 0)
	get(b.CreateSecurityGroup(ctx, seedbed.SecurityGroup{Name: "beta/more", Rules: all}))(b)
}
