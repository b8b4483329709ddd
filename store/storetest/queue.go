package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"seedbed"
)

var queueCases = map[string]func(*bench){
	"priority":           testPriority,
	"unknown kinds":      testUnknownKinds,
	"per node and pool":  testLimits,
	"limits in a race":   testLimitsRace,
	"after":              testAfter,
	"after what fails":   testAfterFailed,
	"after, refused":     testAfterRefused,
	"postpone":           testPostpone,
	"cancel a postponed": testCancelPostponed,
	"options":            testOptions,
	"resume":             testResume,
	"resume, refused":    testResumeRefused,
	"resume a removal":   testResumeRemoval,
	"claims":             testClaimHolders,
}

// queue accepts the create of an instance, after change has modified it.
func (b *bench) queue(name string, change func(*seedbed.Acceptance)) seedbed.JobID {
	b.Helper()
	a := createOf(name)
	if change != nil {
		change(&a)
	}
	return get(b.Accept(context.Background(), a))(b).Job
}

// next claims a job with these limits, and returns an empty ID if there is none.
func (b *bench) next(c seedbed.ClaimOptions) seedbed.JobID {
	b.Helper()
	c.Owner, c.Lease = "one", lease
	if j := get(b.ClaimNext(context.Background(), c))(b); j != nil {
		return j.ID
	}
	return ""
}

func testPriority(b *bench) {
	b.world()
	of := func(p seedbed.Priority) func(*seedbed.Acceptance) {
		return func(a *seedbed.Acceptance) { a.Job.Priority = p }
	}
	low, normal := b.queue("web1", of(seedbed.PriorityLow)), b.queue("web2", nil)
	high, second := b.queue("web3", of(seedbed.PriorityHigh)), b.queue("web4", nil)
	b.equal(get(b.Job(context.Background(), high))(b).Priority, seedbed.PriorityHigh)
	for _, want := range []seedbed.JobID{high, normal, second, low, ""} {
		b.equal(b.next(seedbed.ClaimOptions{}), want)
	}
}

func testUnknownKinds(b *bench) {
	ctx := context.Background()
	b.world()
	create := b.queue("web1", nil)
	imported := get(b.Accept(ctx, importOf("other")))(b).Job
	b.equal(b.next(seedbed.ClaimOptions{Kinds: []seedbed.JobKind{seedbed.JobRemove, "creat", "reate"}}), seedbed.JobID(""))
	b.equal(b.next(seedbed.ClaimOptions{Kinds: []seedbed.JobKind{seedbed.JobRemove, seedbed.JobImport}}), imported)
	b.equal(b.next(seedbed.ClaimOptions{Kinds: []seedbed.JobKind{seedbed.JobCreate}}), create)
}

func testLimits(b *bench) {
	ctx := context.Background()
	b.world()
	on := func(node, pool string) func(*seedbed.Acceptance) {
		return func(a *seedbed.Acceptance) { a.Instance.Node, a.Instance.Volumes[0].Pool = node, pool }
	}
	first, second := b.queue("web1", on("n1", "default")), b.queue("web2", on("n1", "default"))
	other, fourth := b.queue("web3", on("n2", "default")), b.queue("web4", on("n2", "default"))
	b.equal(b.next(seedbed.ClaimOptions{PerNode: 1}), first)
	b.equal(b.next(seedbed.ClaimOptions{PerNode: 1}), other)
	b.equal(b.next(seedbed.ClaimOptions{PerNode: 1}), seedbed.JobID(""))
	b.equal(b.next(seedbed.ClaimOptions{PerPool: 2}), seedbed.JobID(""))
	b.equal(b.next(seedbed.ClaimOptions{PerNode: 2, PerPool: 3}), second)
	b.equal(b.next(seedbed.ClaimOptions{PerNode: 2, PerPool: 3}), seedbed.JobID(""))
	j := get(b.Job(ctx, first))(b)
	b.must(b.Postpone(ctx, j.Ref(), time.Hour, true)) // it waits, and does not count for the limits
	b.equal(b.next(seedbed.ClaimOptions{PerNode: 2, PerPool: 3}), fourth)
}

// testLimitsRace checks that concurrent claims do not exceed a limit.
func testLimitsRace(b *bench) {
	b.world()
	for n := range 12 {
		b.queue(fmt.Sprintf("web%d", n), nil)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	got := map[seedbed.JobID]bool{}
	for n := range 12 {
		group.Go(func() {
			j, err := b.ClaimNext(context.Background(), seedbed.ClaimOptions{Owner: fmt.Sprintf("o%d", n), Lease: lease, PerNode: 3})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				b.Error(err)
			} else if j != nil {
				got[j.ID] = true
			}
		})
	}
	group.Wait()
	b.equal(len(got), 3)
}

func after(id seedbed.JobID) func(*seedbed.Acceptance) {
	return func(a *seedbed.Acceptance) { a.Job.After = id }
}

func testAfter(b *bench) {
	ctx := context.Background()
	b.world()
	first := b.queue("web1", nil)
	second := b.queue("web2", after(first))
	b.equal(get(b.Job(ctx, second))(b).Blocked, true)
	j := b.claim()
	b.equal(j.ID, first)
	b.equal(b.next(seedbed.ClaimOptions{}), seedbed.JobID(""))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	got := get(b.Job(ctx, second))(b)
	b.equal([]any{got.Blocked, got.After}, []any{false, first})
	b.equal(b.next(seedbed.ClaimOptions{}), second)
	third := b.queue("web3", after(first)) // that job has already succeeded
	b.equal(b.next(seedbed.ClaimOptions{}), third)
}

func testAfterFailed(b *bench) {
	ctx := context.Background()
	b.world()
	first := b.queue("web1", nil)
	second := b.queue("web2", after(first))
	third := b.queue("web3", after(second))
	j := b.claim()
	b.must(b.Undo(ctx, j.Ref(), "no room"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	for id, before := range map[seedbed.JobID]seedbed.JobID{second: first, third: second} {
		got := get(b.Job(ctx, id))(b)
		b.equal([]any{got.State, got.Error, got.Blocked},
			[]any{seedbed.JobRolledBack, "job " + before.Short() + ", which was to succeed before, is rolled_back", false})
	}
	b.equal(b.next(seedbed.ClaimOptions{}), seedbed.JobID(""))
	for _, name := range []string{"web1", "web2", "web3"} {
		_, err := b.InstanceByName(ctx, seedbed.InDefault(name))
		b.want(err, seedbed.ErrNotFound)
	}
}

func testAfterRefused(b *bench) {
	ctx := context.Background()
	b.world()
	refuse := func(id seedbed.JobID, kind error) error {
		a := createOf("web9")
		a.Job.After = id
		_, err := b.Accept(ctx, a)
		b.want(err, kind)
		return err
	}
	refuse(seedbed.NewJobID(), seedbed.ErrInvalid)
	first := b.queue("web1", nil)
	b.must(b.CancelJob(ctx, first))
	b.equal(holder(refuse(first, seedbed.ErrConflict)), first)
	i := b.instance("web2")
	remove := removeOf(i.ID)
	remove.Job.After = first
	_, err := b.Accept(ctx, remove)
	b.want(err, seedbed.ErrInvalid, "remove")
}

func testPostpone(b *bench) {
	ctx := context.Background()
	b.world()
	b.queue("web1", nil)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.Postpone(ctx, j.Ref(), time.Hour, true))
	b.want(b.Postpone(ctx, j.Ref(), time.Hour, true), seedbed.ErrStale)
	b.equal(b.next(seedbed.ClaimOptions{}), seedbed.JobID(""))

	b.queue("web2", nil)
	j = b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.Postpone(ctx, j.Ref(), 20*time.Millisecond, true))
	again := b.taken("two")
	b.equal([]any{again.ID, again.Stage, again.Attempts, again.Epoch}, []any{j.ID, "volumes", 2, j.Epoch + 1})
	b.must(b.Postpone(ctx, again.Ref(), 20*time.Millisecond, false))
	b.equal(b.taken("two").Attempts, 2)
}

func testCancelPostponed(b *bench) {
	ctx := context.Background()
	b.world()
	id := b.queue("web1", nil)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.Postpone(ctx, j.Ref(), time.Hour, true))
	b.must(b.CancelJob(ctx, id))
	b.equal(b.claim().State, seedbed.JobUndoing)

	b.queue("web2", nil)
	j = b.claim()
	b.must(b.CancelJob(ctx, j.ID))
	b.must(b.Postpone(ctx, j.Ref(), time.Hour, true))
	b.equal(b.claim().State, seedbed.JobUndoing)
}

func testOptions(b *bench) {
	ctx := context.Background()
	b.world()
	want := seedbed.JobOptions{OnFailure: seedbed.OnFailure{Policy: seedbed.FailRetry, Attempts: 4, Backoff: time.Minute}, Priority: 7}
	id := b.queue("web1", func(a *seedbed.Acceptance) { a.Job.JobOptions = want })
	b.equal(get(b.Job(ctx, id))(b).JobOptions, want)
	b.claim()
	a := createOf("web2")
	a.Job.Priority = 1000
	_, err := b.Accept(ctx, a)
	b.want(err, seedbed.ErrInvalid, "1000")
}

// kept returns a job whose first stage is done and whose second has failed.
func (b *bench) kept(name string) (seedbed.Job, seedbed.Instance) {
	b.Helper()
	ctx := context.Background()
	j, i := b.running(name)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "define", Total: 2}))
	b.must(b.Finish(ctx, j.Ref(),
		seedbed.JobResult{State: seedbed.JobFailed, Error: "no room", Keep: true, InstanceState: seedbed.InstanceFailed}))
	return j, i
}

func testResume(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.kept("web1")
	b.want(b.CancelJob(ctx, j.ID), seedbed.ErrConflict, "failed")
	b.equal(b.next(seedbed.ClaimOptions{}), seedbed.JobID(""))
	got := get(b.ResumeJob(ctx, j.ID))(b)
	b.equal([]any{got.State, got.Stage, got.Done, got.Error, got.Ended.IsZero()}, []any{seedbed.JobQueued, "define", 1, "", true})
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceProvisioning)
	_, err := b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrConflict, "queued")
	again := b.claim()
	b.equal([]any{again.ID, again.Epoch, again.Attempts, again.Stage}, []any{j.ID, j.Epoch + 1, 1, "define"})
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Done: "define"}), seedbed.ErrStale)
	b.must(b.Step(ctx, again.Ref(), seedbed.Step{Next: "define"}))
	b.must(b.Step(ctx, again.Ref(), seedbed.Step{Done: "define"}))
	b.must(b.Finish(ctx, again.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	events := get(b.Events(ctx, j.ID, 0, 0))(b)
	for n, e := range events {
		b.equal(e.Seq, int64(n+1))
	}
	_, err = b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrConflict, "succeeded")
}

func testResumeRefused(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.ResumeJob(ctx, seedbed.NewJobID())
	b.want(err, seedbed.ErrNotFound)
	j, i := b.kept("web1")
	removing := removeOf(i.ID)
	get(b.Accept(ctx, removing))(b)
	_, err = b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrInUse, "remove")
	b.equal(holder(err), removing.Job.ID)
	r := b.claim()
	b.must(b.Finish(ctx, r.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	_, err = b.ResumeJob(ctx, j.ID)
	b.want(err, seedbed.ErrNotFound, "web1")
}

func testResumeRemoval(b *bench) {
	ctx := context.Background()
	b.world()
	i := b.instance("web1")
	get(b.Accept(ctx, removeOf(i.ID)))(b)
	j := b.claim()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "stop", Total: 1}))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobFailed, Error: "stuck", InstanceState: seedbed.InstanceFailed}))
	get(b.ResumeJob(ctx, j.ID))(b)
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRemoving)
	b.equal(b.claim().Stage, "stop")
}

// testClaimHolders checks, for every value that must be unique, that a second request learns which
// job has it.
func testClaimHolders(b *bench) {
	ctx := context.Background()
	b.world()
	first := createOf("web1")
	get(b.Accept(ctx, first))(b)
	held := get(b.Instance(ctx, first.Instance.ID))(b)
	for what, change := range map[string]func(*seedbed.Acceptance){
		"name": func(a *seedbed.Acceptance) { a.Instance.Name = "web1" },
		"UUID": func(a *seedbed.Acceptance) { a.Instance.ID = held.ID },
		"MAC":  func(a *seedbed.Acceptance) { a.Instance.NICs[0].MAC = held.NICs[0].MAC },
		"IP":   func(a *seedbed.Acceptance) { a.Instance.NICs[0].Addr = held.NICs[0].Addr },
	} {
		a := createOf("web2")
		change(&a)
		_, err := b.Accept(ctx, a)
		b.want(err, seedbed.ErrExists, first.Job.ID.Short())
		if holder(err) != first.Job.ID {
			b.Errorf("%s: holder %q in %v", what, holder(err), err)
		}
	}
	importing := importOf("other")
	get(b.Accept(ctx, importing))(b)
	_, err := b.Accept(ctx, importOf("other"))
	b.want(err, seedbed.ErrExists, importing.Job.ID.Short())
	b.equal(holder(err), importing.Job.ID)
	b.equal(len(get(b.Instances(ctx))(b)), 1)
}
