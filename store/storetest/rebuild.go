package storetest

import (
	"context"
	"encoding/json"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
)

var rebuildCases = map[string]func(*bench){
	"rebuild":             testRebuild,
	"rebuild undone":      testRebuildUndone,
	"rebuild's guest":     testRebuiltGuest,
	"rebuild refused":     testRebuildRefused,
	"rebuild's last step": testRebuildFinal,
	"rebuild that failed": testRebuildFailed,
	"migration":           testMigrate,
	"migration refused":   testMigrateRefused,
}

// rebuildOf returns the request to rebuild an instance from the image other.
func rebuildOf(i seedbed.Instance) seedbed.Acceptance {
	next := i
	next.Profile, next.Image, next.VCPUs, next.Ready, next.ReportToken = "big", "other", 7, seedbed.ReadyReport, "a new token"
	next.UserData, next.VendorData, next.SSHKeys, next.Metadata.Tokens = []byte{}, nil, []string{"ssh-ed25519 new"}, "required"
	next.Fetched, next.Reported = time.Time{}, time.Time{}
	next.Volumes = []seedbed.Volume{{Name: string(i.ID) + "-0-new", Pool: "default", Size: 3 * seedbed.GiB, Image: "other"},
		{Name: string(i.ID) + "-1-new", Pool: "default", Index: 1, Size: seedbed.GiB}}
	spec, _ := json.Marshal(seedbed.RebuildSpec{Profile: "big", Image: "other"})
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRebuild, Instance: i.ID, Spec: spec}, Rebuild: &next}
}

// rebuilding returns a running rebuild job of web1, whose guest has reported, and posted a password.
func (b *bench) rebuilding() (j seedbed.Job, before seedbed.Instance, next seedbed.Instance) {
	ctx := context.Background()
	b.world()
	b.image("other")
	i := b.instance("web1")
	b.reports(i, 1)
	b.posts(i, 3)
	before = get(b.Instance(ctx, i.ID))(b)
	a := rebuildOf(before)
	get(b.Accept(ctx, a))(b)
	return b.claim(), before, *a.Rebuild
}

// reports records that the guest fetches and reports, as events n and n+1.
func (b *bench) reports(i seedbed.Instance, n int64) {
	b.must(b.AddGuestEvents(context.Background(), node, "spool", []seedbed.GuestEvent{
		{Seq: n, Instance: i.ID, Kind: seedbed.GuestUserData, At: day, Status: 200},
		{Seq: n + 1, Instance: i.ID, Kind: seedbed.GuestReport, At: day, Fields: map[string]string{seedbed.HostKeyField: hostKey}}}))
}

// posts records that the guest posts a password, as event n.
func (b *bench) posts(i seedbed.Instance, n int64) {
	b.must(b.AddGuestEvents(context.Background(), node, "spool", []seedbed.GuestEvent{
		{Seq: n, Instance: i.ID, Kind: seedbed.GuestPassword, At: day, Fields: map[string]string{"password": "c2VjcmV0"}}}))
}

// settled returns an instance without the fields that every change sets.
func settled(i seedbed.Instance) seedbed.Instance {
	i.Revision, i.Changed = 0, time.Time{}
	return i
}

func testRebuild(b *bench) {
	ctx := context.Background()
	j, before, next := b.rebuilding()
	var spec seedbed.RebuildSpec
	b.must(json.Unmarshal(j.Spec, &spec))
	b.equal(spec, seedbed.RebuildSpec{PowerSpec: seedbed.PowerSpec{Was: seedbed.InstanceRunning}, Profile: "big", Image: "other"})
	r := get(b.Rebuilding(ctx, j.ID))(b)
	b.equal(settled(r.Next), settled(next))
	next.Password, next.HostKey = "", ""
	b.equal(r.Before == nil, true)
	b.equal(get(b.Instance(ctx, before.ID))(b), before)
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	now := get(b.Instance(ctx, before.ID))(b)
	b.equal(settled(now), settled(next))
	b.equal(now.Revision > before.Revision, true)
	// Only what the previous guest reported since is cleared.
	b.reports(before, 4)
	b.posts(before, 6)
	b.equal(get(b.Instance(ctx, before.ID))(b).Reported.IsZero(), false)
	b.equal(get(b.Instance(ctx, before.ID))(b).Password != "", true)
	b.equal(get(b.Instance(ctx, before.ID))(b).HostKey, hostKey)
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	b.equal(settled(get(b.Instance(ctx, before.ID))(b)), settled(next))
	r = get(b.Rebuilding(ctx, j.ID))(b)
	b.equal(settled(*r.Before), settled(before))
	_, err := b.Accept(ctx, imageRemoveOf("other"))
	b.want(err, seedbed.ErrInUse, "instance web1")
	_, err = b.Accept(ctx, imageRemoveOf("debian"))
	b.want(err, seedbed.ErrInUse, "the rebuild of instance web1")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err = b.Rebuilding(ctx, j.ID)
	b.want(err, seedbed.ErrNotFound)
	b.want(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext), seedbed.ErrStale)
	get(b.Accept(ctx, imageRemoveOf("debian")))(b)
}

// What the former guest posted and fetched comes late, as from a node that was cut off, and does not
// count for the new one. It had another report token, or none.
func testRebuiltGuest(b *bench) {
	ctx := context.Background()
	j, before, next := b.rebuilding()
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	posts := func(seq int64, token string) seedbed.Instance {
		b.must(b.AddGuestEvents(ctx, node, "spool", []seedbed.GuestEvent{
			{Seq: seq, Instance: before.ID, Kind: seedbed.GuestReport, At: day, Token: seedbed.TokenDigest(token)},
			{Seq: seq + 1, Instance: before.ID, Kind: seedbed.GuestPassword, At: day, Token: seedbed.TokenDigest(token),
				Fields: map[string]string{"password": token}},
			{Seq: seq + 2, Instance: before.ID, Kind: seedbed.GuestUserData, At: day, Status: 200, Token: seedbed.TokenDigest(token)},
			{Seq: seq + 3, Instance: before.ID, Kind: seedbed.GuestAccess, At: day, Path: "/latest/user-data", Status: 200,
				Token: seedbed.TokenDigest(token)}}))
		return get(b.Instance(ctx, before.ID))(b)
	}
	for n, token := range []string{"the former token", ""} {
		late := posts(int64(10+4*n), token)
		b.equal(late.Reported, time.Time{})
		b.equal(late.Fetched, time.Time{})
		b.equal(late.Password, "")
	}
	b.equal(len(get(b.GuestEvents(ctx, before.ID, 0))(b)), 11)
	now := posts(18, next.ReportToken)
	b.equal(now.Reported, day)
	b.equal(now.Fetched, day)
	b.equal(now.Password, next.ReportToken)
}

func testRebuildUndone(b *bench) {
	ctx := context.Background()
	j, before, _ := b.rebuilding()
	b.want(b.Exchange(ctx, j.Ref(), seedbed.RebuildBefore), seedbed.ErrConflict, "running")
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	b.must(b.Undo(ctx, j.Ref(), "boom"))
	b.want(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext), seedbed.ErrConflict, "undoing")
	for range 2 {
		b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildBefore))
		b.equal(settled(get(b.Instance(ctx, before.ID))(b)), settled(before))
		// The old instance is served again.
		get(b.Publish(ctx, j.Ref(), node, guestOf(before), seedbed.Documents{UserData: before.UserData}))(b)
	}
	r := get(b.Rebuilding(ctx, j.ID))(b)
	b.equal(r.Before == nil, true)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "boom", InstanceState: seedbed.InstanceRunning}))
	get(b.Accept(ctx, imageRemoveOf("other")))(b)
}

func testRebuildRefused(b *bench) {
	ctx := context.Background()
	b.world()
	b.image("other")
	i := b.instance("web1")
	for name, change := range map[string]func(*seedbed.Acceptance){
		"nothing to make": func(a *seedbed.Acceptance) { a.Rebuild = nil },
		"no image":        func(a *seedbed.Acceptance) { a.Rebuild.Image = "none" },
		"other pool":      func(a *seedbed.Acceptance) { a.Rebuild.Volumes[0].Pool = "fast" },
		"user-data":       func(a *seedbed.Acceptance) { a.Rebuild.UserData = make([]byte, seedbed.MaxDocument+1) },
		"readiness":       func(a *seedbed.Acceptance) { a.Rebuild.Ready = "soon" },
		"input":           func(a *seedbed.Acceptance) { a.Job.Spec = []byte(`[]`) },
		"instance":        func(a *seedbed.Acceptance) { a.Job.Instance = "../x" },
	} {
		a := rebuildOf(i)
		change(&a)
		if _, err := b.Accept(ctx, a); seedbed.KindName(err) != "invalid" {
			b.Errorf("%s: %v; want one that is invalid", name, err)
		}
	}
	other := rebuildOf(i)
	other.Job.Instance = seedbed.NewInstanceID()
	_, err := b.Accept(ctx, other)
	b.want(err, seedbed.ErrNotFound)
	making, _ := b.running("web2")
	b.want(b.Exchange(ctx, making.Ref(), seedbed.RebuildNext), seedbed.ErrConflict, "create")
	_, err = b.Rebuilding(ctx, making.ID)
	b.want(err, seedbed.ErrNotFound)
	get(b.Accept(ctx, imageRemoveOf("other")))(b)
	_, err = b.Accept(ctx, rebuildOf(i))
	b.want(err, seedbed.ErrInvalid, "being removed")
}

// The last stage cannot be undone. A cancelled job does not start it, and a job that has started it
// cannot be cancelled.
func testRebuildFinal(b *bench) {
	ctx := context.Background()
	j, _, _ := b.rebuilding()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "ready", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "ready", Next: "delete", Final: true}))
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "former disks")
	b.equal(get(b.Job(ctx, j.ID))(b).Cancel, false)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "delete"}))
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "former disks")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))

	get(b.Accept(ctx, rebuildOf(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b))))(b)
	k := b.claim()
	b.must(b.Step(ctx, k.Ref(), seedbed.Step{Next: "ready", Total: 2}))
	b.must(b.CancelJob(ctx, k.ID))
	b.want(b.Step(ctx, k.Ref(), seedbed.Step{Done: "ready", Next: "delete", Final: true}), seedbed.ErrConflict, "cancelled")
	b.equal(get(b.Job(ctx, k.ID))(b).Stage, "ready")
}

// A failed rebuild keeps its data so that it can be resumed, and does not keep images from being
// removed. Its data is deleted with the instance, whose removal also removes the old disks.
func testRebuildFailed(b *bench) {
	ctx := context.Background()
	j, before, next := b.rebuilding()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "redefine", Total: 2}))
	b.must(b.Exchange(ctx, j.Ref(), seedbed.RebuildNext))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "redefine", Next: "delete", Final: true}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "in use"}))
	get(b.ResumeJob(ctx, j.ID))(b)
	j = b.claim()
	b.equal(get(b.Rebuilding(ctx, j.ID))(b).Before.Volumes, before.Volumes)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "in use"}))
	get(b.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, State: seedbed.JobQueued, Subject: before.Image},
	}))(b)
	b.claim()

	a := removeOf(next.ID)
	get(b.Accept(ctx, a))(b)
	var names []string
	for _, v := range get(b.Instance(ctx, next.ID))(b).Volumes {
		names = append(names, v.Name)
	}
	b.equal(names, []string{next.Volumes[0].Name, next.Volumes[1].Name, before.Volumes[0].Name})
	k := b.claim()
	b.equal(k.ID, a.Job.ID)
	b.must(b.Finish(ctx, k.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err := b.Rebuilding(ctx, j.ID)
	b.want(err, seedbed.ErrNotFound)
}

// migrateOf returns the request to take an instance that runs from node to node2.
func migrateOf(i seedbed.Instance, was seedbed.InstanceState) seedbed.Acceptance {
	spec := seedbed.MigrateSpec{From: i.Node, To: "node2", Live: was == seedbed.InstanceRunning, Home: i.Node}
	spec.Was = was
	raw, _ := json.Marshal(spec)
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobMigrate, Instance: i.ID, Spec: raw}}
}

// testMigrate checks that an instance is served by both nodes while it is on its way, is its peers' at one of them, and counts for both.
func testMigrate(b *bench) {
	ctx := context.Background()
	b.world()
	b.lan()
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://node2.example:7375", Cordoned: true}))(b)
	making, i := b.runningIn("web1", "lan")
	get(b.Publish(ctx, making.Ref(), node, guestOf(i), seedbed.Documents{UserData: []byte("data")}))(b)
	b.must(b.Finish(ctx, making.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	render := func(i seedbed.Instance, old seedbed.Guest) seedbed.Guest {
		g := guestOf(i)
		g.Node, g.Arriving = i.Node, old.Arriving
		return g
	}
	serves := func(of string) (arriving, own bool) {
		b.Helper()
		for _, c := range feedtest.Changes(b, get(b.FeedPage(ctx, of, 0, ""))(b)) {
			if c.Guest != nil && c.Guest.ID == i.ID {
				if c.Guest.UserData == nil {
					b.Errorf("node %s serves it without user-data", of)
				}
				arriving, own = c.Guest.Arriving, !c.Guest.Arriving
			}
		}
		return arriving, own
	}
	is := func(at, target, home string, here, there [2]bool) {
		b.Helper()
		now := get(b.Instance(ctx, i.ID))(b)
		b.equal([]string{now.Node, now.Target, now.Home}, []string{at, target, home})
		for of, want := range map[string][2]bool{node: here, "node2": there} {
			arriving, own := serves(of)
			b.equal([]any{of, arriving, own}, []any{of, want[0], want[1]})
		}
		other := map[string]string{node: "node2", "node2": node}[at]
		all, _ := b.peers(other, 0)
		b.equal(all, []string{"+web1"})
	}
	none, arrives, own := [2]bool{}, [2]bool{true, false}, [2]bool{false, true}
	a := migrateOf(i, seedbed.InstanceRunning)
	get(b.Accept(ctx, a))(b)
	is(node, "node2", "", own, none)
	use := map[string]int{}
	for _, u := range get(b.NodeUse(ctx))(b) {
		use[u.Node] = u.Instances
	}
	b.equal(use, map[string]int{node: 1, "node2": 1})
	b.want(b.RemoveNode(ctx, "node2"), seedbed.ErrInUse, "migrate job")
	j := b.claim()
	revision := get(b.Arrive(ctx, j.Ref(), "node2", i.ID))(b)
	b.equal(get(b.Arrive(ctx, j.Ref(), "node2", i.ID))(b), revision)
	is(node, "node2", "", own, arrives)
	get(b.ChangeInstance(ctx, seedbed.InDefault("web1"), func(i *seedbed.Instance) error { i.Tags = map[string]string{"a": "b"}; return nil },
		render))(b)
	is(node, "node2", "", own, arrives)
	for range 2 {
		get(b.Move(ctx, j.Ref(), "node2", node, i.ID, render))(b)
		is("node2", "", node, none, own)
	}
	get(b.Move(ctx, j.Ref(), node, "", i.ID, render))(b)
	is(node, "", "", own, none)
	get(b.Move(ctx, j.Ref(), "node2", node, i.ID, render))(b)
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	is("node2", "", node, none, own)
	_, err := b.Move(ctx, j.Ref(), node, "", i.ID, render)
	b.want(err, seedbed.ErrStale)
}

// testMigrateRefused checks what a migration needs, and that one that ends without success leaves the instance where it is.
func testMigrateRefused(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	_, err := b.Accept(ctx, migrateOf(i, seedbed.InstanceRunning))
	b.want(err, seedbed.ErrNotFound, "node2")
	get(b.AddNode(ctx, seedbed.Node{Name: "node2", Worker: "https://node2.example:7375"}))(b)
	_, err = b.Accept(ctx, migrateOf(i, seedbed.InstanceStopped))
	b.want(err, seedbed.ErrConflict, "request it again")
	elsewhere := i
	elsewhere.Node = "node3"
	_, err = b.Accept(ctx, migrateOf(elsewhere, seedbed.InstanceRunning))
	b.want(err, seedbed.ErrConflict, "request it again")
	elsewhere.Node = "node2"
	_, err = b.Accept(ctx, migrateOf(elsewhere, seedbed.InstanceRunning))
	b.want(err, seedbed.ErrInvalid, "expected another node")
	a := migrateOf(i, seedbed.InstanceRunning)
	get(b.Accept(ctx, a))(b)
	_, err = b.Accept(ctx, migrateOf(i, seedbed.InstanceRunning))
	b.want(err, seedbed.ErrInUse)
	b.must(b.CancelJob(ctx, a.Job.ID))
	b.equal(get(b.Instance(ctx, i.ID))(b).Target, "")
}
