package storetest

import (
	"context"

	"seedbed"
	"seedbed/internal/feedtest"
)

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
