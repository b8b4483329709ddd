package storetest

import (
	"context"
	"strings"

	"seedbed"
)

var removalCases = map[string]func(*bench){
	"remove what is made":   testRemoveWhileMade,
	"remove what is queued": testRemoveWhileQueued,
	"refused removal":       testRemoveRefused,
}

// removing accepts the removal of an instance that is being made.
func (b *bench) removing(making seedbed.Job, i seedbed.Instance) seedbed.JobID {
	b.Helper()
	ctx := context.Background()
	a := removeOf(i.ID)
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobQueued, Cancels: making.ID})
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRemoving)
	j := get(b.Job(ctx, a.Job.ID))(b)
	b.equal([]any{j.After, j.Blocked, j.Subject, j.Node}, []any{making.ID, true, i.Name, node})
	b.equal(get(b.Job(ctx, making.ID))(b).Cancel, true)
	if none := get(b.ClaimNext(ctx, seedbed.ClaimOptions{Owner: "eager", Lease: lease}))(b); none != nil {
		b.Fatalf("the removal is given out before its time: %+v", none)
	}
	_, err := b.Accept(ctx, removeOf(i.ID))
	b.want(err, seedbed.ErrInUse)
	b.equal(holder(err), a.Job.ID)
	return a.Job.ID
}

// A removal follows the job that makes its instance, whether or not undoing that job leaves something.
func testRemoveWhileMade(b *bench) {
	ctx := context.Background()
	b.world()
	for name, c := range map[string]struct {
		end  seedbed.JobResult
		gone bool
	}{
		"rolled back": {seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled", Drop: true}, true},
		"left behind": {seedbed.JobResult{State: seedbed.JobIncomplete, Error: "cancelled", InstanceState: seedbed.InstanceFailed}, false},
	} {
		making, i := b.running("web-" + strings.ReplaceAll(name, " ", "-"))
		id := b.removing(making, i)
		for _, late := range []seedbed.JobResult{
			{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning},
			{State: seedbed.JobSucceeded},
			{State: seedbed.JobFailed, Error: "no", Keep: true, InstanceState: seedbed.InstanceFailed},
		} {
			b.want(b.Finish(ctx, making.Ref(), late), seedbed.ErrConflict, "cancelled")
		}
		b.must(b.Undo(ctx, making.Ref(), "cancelled"))
		b.must(b.Finish(ctx, making.Ref(), c.end))
		j := get(b.Job(ctx, id))(b)
		if c.gone {
			b.equal([]any{j.State, j.Blocked, j.Error}, []any{seedbed.JobSucceeded, false, ""})
			_, err := b.Instance(ctx, i.ID)
			b.want(err, seedbed.ErrNotFound)
			if e := b.last(id); e.Msg != "succeeded" {
				b.Errorf("%s: last event %+v", name, e)
			}
			continue
		}
		b.equal([]any{j.State, j.Blocked}, []any{seedbed.JobQueued, false})
		b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRemoving)
		j = b.claim()
		b.equal(j.ID, id)
		b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	}
}

// A job that no engine has started ends at once, and its name is free.
func testRemoveWhileQueued(b *bench) {
	ctx := context.Background()
	b.world()
	b.endpoint("all", "*")
	made := createOf("web1")
	get(b.Accept(ctx, made))(b)
	a := removeOf(made.Instance.ID)
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Job: a.Job.ID, State: seedbed.JobSucceeded, Cancels: made.Job.ID})
	b.equal(get(b.Job(ctx, made.Job.ID))(b).State, seedbed.JobRolledBack)
	_, err := b.InstanceByName(ctx, seedbed.InDefault("web1"))
	b.want(err, seedbed.ErrNotFound)
	first := get(b.Events(ctx, a.Job.ID, 0, 1))(b)
	if len(first) != 1 || first[0].Msg != "accepted" {
		b.Errorf("the removal's first event: %+v", first)
	}
	b.equal(b.told("all"),
		[]string{"1 job.accepted web1 pending", "2 job.accepted web1 pending", "3 job.cancelled web1 pending", "4 job.succeeded web1 pending"})
	get(b.Accept(ctx, createOf("web1")))(b)
}

// A removal that is refused cancels nothing.
func testRemoveRefused(b *bench) {
	ctx := context.Background()
	b.world()
	made := createOf("web1")
	made.Instance.Protected = true
	get(b.Accept(ctx, made))(b)
	_, err := b.Accept(ctx, removeOf(made.Instance.ID))
	b.want(err, seedbed.ErrConflict, "protected")
	b.equal(get(b.Job(ctx, made.Job.ID))(b).Cancel, false)
	b.equal(get(b.InstanceByName(ctx, seedbed.InDefault("web1")))(b).State, seedbed.InstanceProvisioning)
	a := removeOf(made.Instance.ID)
	a.Confirm = "web1"
	b.equal(get(b.Accept(ctx, a))(b).Cancels, made.Job.ID)
}
