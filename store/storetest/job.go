package storetest

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"seedbed"
	"seedbed/internal/feedtest"
)

var jobCases = map[string]func(*bench){
	"by prefix": testJobPrefix,
	"newest":    testJobsNewest,
	"events":    testEvents,
	"cancel":    testCancel,
	"states":    testInstanceState,
}

func testJobPrefix(b *bench) {
	ctx := context.Background()
	b.world()
	ids := []seedbed.JobID{"0aaaaaaa-0000-4000-8000-000000000001",
		"0aaaaaaa-0000-4000-8000-000000000002", "0bbbbbbb-0000-4000-8000-000000000001"}
	for n, id := range ids {
		a := createOf(nameN(n))
		a.Job.ID = id
		get(b.Accept(ctx, a))(b)
	}
	b.equal(get(b.FindJob(ctx, seedbed.AllProjects(), "0bbbbbbb"))(b).ID, ids[2])
	b.equal(get(b.FindJob(ctx, seedbed.AllProjects(), "0BBBBBBB"))(b).ID, ids[2])
	b.equal(get(b.FindJob(ctx, seedbed.AllProjects(), string(ids[1])))(b).ID, ids[1])
	_, err := b.FindJob(ctx, seedbed.AllProjects(), "0aaaaaaa-0000")
	b.want(err, seedbed.ErrConflict, string(ids[0]), string(ids[1]))
	_, err = b.FindJob(ctx, seedbed.AllProjects(), "0ccccccc")
	b.want(err, seedbed.ErrNotFound, "0ccccccc")
	for _, bad := range []string{"", "0bbbbbb", "0bbbbbb%", "0bbbbbb_", "zzzzzzzz", string(ids[1]) + "0"} {
		_, err := b.FindJob(ctx, seedbed.AllProjects(), bad)
		b.want(err, seedbed.ErrInvalid)
	}
	_, err = b.Job(ctx, "0bbbbbbb")
	b.want(err, seedbed.ErrNotFound)
}

func testJobsNewest(b *bench) {
	ctx := context.Background()
	b.world()
	var ids []seedbed.JobID
	for n := range 3 {
		a := createOf(nameN(n))
		a.Job.Created = time.Now().Add(time.Duration(n) * time.Hour)
		ids = append(ids, get(b.Accept(ctx, a))(b).Job)
	}
	jobs := get(b.Jobs(ctx, 2))(b)
	b.equal([]seedbed.JobID{jobs[0].ID, jobs[1].ID}, []seedbed.JobID{ids[2], ids[1]})
	b.equal(b.claim().ID, ids[0])
	b.equal(b.claim().ID, ids[1])
}

func testEvents(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	at := time.Now().UTC().Add(time.Hour).Truncate(time.Microsecond)
	b.must(b.LogEvent(ctx, j.Ref(), seedbed.Event{At: at, Level: "warn", Stage: "volumes", Msg: "half\x00way\xff", Progress: 50}))
	b.must(b.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: strings.Repeat("é", 5000), Progress: 500}))
	all := get(b.Events(ctx, j.ID, 1, 0))(b)
	b.equal(all[0], seedbed.Event{Job: j.ID, Seq: 2, At: at, Level: "warn", Stage: "volumes", Msg: "half\ufffdway\ufffd", Progress: 50})
	if e := all[1]; len(e.Msg) > 4096 || e.Level != "info" || e.Seq != 3 || e.At.IsZero() {
		b.Fatalf("event of %d bytes: %+v", len(e.Msg), e)
	}
	b.equal(all[1].At, at) // a history does not go back in time
	b.equal(get(b.Job(ctx, j.ID))(b).Progress, 100)
	b.equal(len(get(b.Events(ctx, j.ID, 0, 2))(b)), 2)
	b.equal(get(b.Events(ctx, j.ID, 3, 2))(b), []seedbed.Event{})
	b.want(b.LogEvent(ctx, j.Ref(), seedbed.Event{Level: "shout"}), seedbed.ErrInvalid, "shout")
	_, err := b.Events(ctx, seedbed.NewJobID(), 0, 1)
	b.want(err, seedbed.ErrNotFound)
	_, err = b.Stages(ctx, seedbed.NewJobID())
	b.want(err, seedbed.ErrNotFound)
}

func testCancel(b *bench) {
	ctx := context.Background()
	b.world()
	b.want(b.CancelJob(ctx, seedbed.NewJobID()), seedbed.ErrNotFound)
	queued := createOf("web1")
	get(b.Accept(ctx, queued))(b)
	b.must(b.CancelJob(ctx, queued.Job.ID)) // no engine has started it
	j := get(b.Job(ctx, queued.Job.ID))(b)
	b.equal([]any{j.State, j.Error, j.Cancel, j.Epoch}, []any{seedbed.JobRolledBack, "cancelled", true, int64(0)})
	b.equal(len(get(b.Events(ctx, j.ID, 0, 0))(b)), 3)
	_, err := b.Instance(ctx, queued.Instance.ID)
	b.want(err, seedbed.ErrNotFound)
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "rolled_back")

	begun := get(b.Accept(ctx, createOf("web1")))(b)
	j = *get(b.ClaimJob(ctx, "one", lease))(b)
	b.must(b.Release(ctx, j.Ref()))
	b.must(b.CancelJob(ctx, begun.Job))
	b.must(b.CancelJob(ctx, begun.Job))
	b.equal(len(get(b.Events(ctx, begun.Job, 0, 0))(b)), 2)
	j = b.claim()
	b.equal([]any{j.ID, j.State, j.Error, j.Cancel}, []any{begun.Job, seedbed.JobUndoing, "cancelled", true})
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "rolled_back")

	j, _ = b.running("web1")
	b.equal(get(b.RenewLease(ctx, j.Ref(), lease))(b), false)
	b.must(b.CancelJob(ctx, j.ID))
	b.equal(get(b.Job(ctx, j.ID))(b).State, seedbed.JobRunning)
	b.equal(get(b.RenewLease(ctx, j.Ref(), lease))(b), true)
	b.want(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}), seedbed.ErrConflict, "cancelled")
	b.must(b.Undo(ctx, j.Ref(), "cancelled"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))

	i := b.instance("web1")
	removing := get(b.Accept(ctx, removeOf(i.ID)))(b)
	b.want(b.CancelJob(ctx, removing.Job), seedbed.ErrInvalid, "remove")
	b.equal(get(b.Job(ctx, removing.Job))(b).Cancel, false)
}

func testInstanceState(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.equal(get(b.SetInstanceState(ctx, i, seedbed.InstanceStopped))(b), true)
	b.equal(get(b.SetInstanceState(ctx, get(b.Instance(ctx, i.ID))(b), seedbed.InstanceRunning))(b), true)
	b.equal(get(b.SetInstanceState(ctx, i, seedbed.InstanceStopped))(b), false) // it has changed since
	i = get(b.Instance(ctx, i.ID))(b)
	b.equal(get(b.SetInstanceState(ctx, i, seedbed.InstanceStopped))(b), true)
	now := get(b.Instance(ctx, i.ID))(b)
	b.equal(now.State, seedbed.InstanceStopped)
	b.equal(now.Revision, i.Revision+1)
	b.equal(get(b.SetInstanceState(ctx, seedbed.Instance{ID: seedbed.NewInstanceID()}, seedbed.InstanceStopped))(b), false)
	// While a job works on the instance, or waits to, only the job sets the state.
	get(b.Accept(ctx, removeOf(i.ID)))(b)
	was := get(b.Instance(ctx, i.ID))(b)
	b.equal(get(b.SetInstanceState(ctx, was, seedbed.InstanceRunning))(b), false)
	b.equal(get(b.Instance(ctx, i.ID))(b), was)
}

var finishCases = map[string]func(*bench){
	"succeeded":         testSucceeded,
	"rolled back":       testRolledBack,
	"incomplete":        testIncomplete,
	"remove":            testRemoved,
	"remove failed":     testRemoveFailed,
	"illegal":           testIllegalEnd,
	"drop still served": testDropServed,
}

func (b *bench) last(job seedbed.JobID) seedbed.Event {
	b.Helper()
	all := get(b.Events(context.Background(), job, 0, 0))(b)
	return all[len(all)-1]
}

func testSucceeded(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	now := get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.State, now.Owner, now.Error, now.Progress, now.LeaseUntil.IsZero()}, []any{seedbed.JobSucceeded, "", "", 100, true})
	if now.Ended.IsZero() || now.Ended.Before(now.Started) {
		b.Errorf("ended %v, started %v", now.Ended, now.Started)
	}
	b.equal(b.last(j.ID).Level, "info")
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRunning)
}

// The undo of a create releases everything: the name, MAC and address are free.
func testRolledBack(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	get(b.Accept(ctx, a))(b)
	j := b.claim()
	b.must(b.Undo(ctx, j.Ref(), "no KVM"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "late cause", Drop: true}))
	now := get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.State, now.Error, now.Instance}, []any{seedbed.JobRolledBack, "no KVM", a.Instance.ID})
	b.equal(b.last(j.ID).Level, "warn")
	_, err := b.Instance(ctx, a.Instance.ID)
	b.want(err, seedbed.ErrNotFound)
	again := createOf("web1")
	again.Instance.NICs = a.Instance.NICs
	again.Instance.Volumes = a.Instance.Volumes
	get(b.Accept(ctx, again))(b)
	b.equal(get(b.Instance(ctx, again.Instance.ID))(b).NICs[0].Addr.String(), "10.99.0.2")
}

func testIncomplete(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	b.must(b.Undo(ctx, j.Ref(), "no KVM"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete, InstanceState: seedbed.InstanceFailed}))
	b.equal(b.last(j.ID).Level, "error")
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceFailed)
	_, err := b.Accept(ctx, createOf("web1"))
	b.want(err, seedbed.ErrExists)
	b.remove(i.ID)
	get(b.Accept(ctx, createOf("web1")))(b)
}

func testRemoved(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	b.must(b.AddGuestEvents(ctx, node, "s", []seedbed.GuestEvent{leaseEvent(1, i, day)}))
	b.remove(i.ID)
	b.equal(get(b.Instances(ctx))(b), []seedbed.Instance{})
	b.equal(get(b.Leases(ctx, seedbed.AllProjects()))(b), []seedbed.Lease{})
	b.equal(len(get(b.GuestEvents(ctx, i.ID, 0))(b)), 1)
	a := createOf("web1")
	a.Instance.NICs[0].MAC = i.NICs[0].MAC
	get(b.Accept(ctx, a))(b)
}

func testRemoveFailed(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	get(b.Accept(ctx, removeOf(i.ID)))(b)
	j := b.claim()
	b.must(b.Finish(ctx, j.Ref(),
		seedbed.JobResult{State: seedbed.JobFailed, Error: "libvirt is away", InstanceState: seedbed.InstanceFailed}))
	b.equal(get(b.Job(ctx, j.ID))(b).Error, "libvirt is away")
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceFailed)
	b.remove(i.ID)
}

func testIllegalEnd(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	before := b.state(j.ID)
	b.want(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}), seedbed.ErrConflict, "running", "rolled_back")
	b.want(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRunning}), seedbed.ErrInvalid, "running")
	b.equal(b.state(j.ID), before)
	b.must(b.Undo(ctx, j.Ref(), "cause"))
	b.want(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}), seedbed.ErrConflict, "undoing")
	get(b.Instance(ctx, i.ID))(b)
}

// A dropped instance is no longer served, whatever the engine did before.
func testDropServed(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	for _, n := range []string{node, "node2"} {
		get(b.Publish(ctx, j.Ref(), n, guestOf(i), seedbed.Documents{}))(b)
	}
	b.must(b.Undo(ctx, j.Ref(), "cause"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	for _, n := range []string{node, "node2"} {
		page := get(b.FeedPage(ctx, n, 1, b.generation()))(b)
		b.equal(feedtest.Changes(b, page), []feedtest.Change{{Revision: 2, Instance: i.ID}})
	}
}

// testRename checks that an instance that is off gets another name with the end of a stage, and that the former one is free from then on.
func testRename(b *bench) {
	ctx := context.Background()
	b.world()
	to := func(i seedbed.Instance, name string) seedbed.Acceptance {
		raw, _ := json.Marshal(seedbed.RenameJob{To: name})
		return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobRename, Instance: i.ID, Spec: raw}}
	}
	on, off := b.instance("web1"), b.off("web2")
	for _, c := range []struct {
		a    seedbed.Acceptance
		kind error
		says string
	}{
		{to(on, "web3"), seedbed.ErrConflict, "while it is stopped"},
		{to(off, "web1"), seedbed.ErrExists, `instance "web1" exists already`},
		{to(off, "web2"), seedbed.ErrInvalid, "has that name already"},
		{to(off, "a b"), seedbed.ErrInvalid, "a b"},
	} {
		_, err := b.Accept(ctx, c.a)
		b.want(err, c.kind, c.says)
	}

	get(b.Accept(ctx, to(off, "web3")))(b)
	j := b.claim()
	b.equal([]string{j.Subject, j.Node, j.Pool, string(j.Spec)}, []string{"web2", node, "", `{"from":"web2","to":"web3"}`})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "rename", Total: 2}))
	done := seedbed.Step{Done: "rename", Next: "publish", Final: true, Total: 2, Renamed: "web3"}
	taken := done
	taken.Renamed = "web1"
	b.want(b.Step(ctx, j.Ref(), taken), seedbed.ErrExists)
	b.equal(get(b.Instance(ctx, off.ID))(b).Name, "web2")
	for range 2 {
		b.must(b.Step(ctx, j.Ref(), done))
	}
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "cannot be undone")
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "publish", Total: 2}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	now := get(b.InstanceByName(ctx, seedbed.InDefault("web3")))(b)
	b.equal([]any{now.ID, now.Revision > off.Revision, now.State}, []any{off.ID, true, seedbed.InstanceStopped})
	b.equal(get(b.InstanceNames(ctx, []seedbed.InstanceID{off.ID}))(b), map[seedbed.InstanceID]string{off.ID: "web3"})
	b.equal(b.instance("web2").ID != off.ID, true)

	// Of the jobs from before, only a rename that has given the instance its name goes on.
	failed := func(from string, a seedbed.Acceptance, steps ...seedbed.Step) seedbed.JobID {
		b.equal(get(b.Accept(ctx, a))(b).Job, a.Job.ID)
		j := b.claim()
		b.equal(j.Subject, from)
		for _, s := range steps {
			b.must(b.Step(ctx, j.Ref(), s))
		}
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "no answer"}))
		return j.ID
	}
	flatten := seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobFlatten, Instance: off.ID}}
	old := failed("web3", flatten)
	half := failed("web3", to(off, "web6"), seedbed.Step{Next: "rename", Total: 2},
		seedbed.Step{Done: "rename", Next: "publish", Final: true, Total: 2, Renamed: "web6"})
	_, err := b.ResumeJob(ctx, old)
	b.want(err, seedbed.ErrConflict, `instance "web3" has been renamed to "web6" since`)
	b.equal(get(b.ResumeJob(ctx, half))(b).State, seedbed.JobQueued)
	j = b.claim()
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))

	r, _ := b.running("web4")
	b.want(b.Step(ctx, r.Ref(), seedbed.Step{Next: "volumes", Renamed: "web5"}), seedbed.ErrInvalid, "renames nothing")
}
