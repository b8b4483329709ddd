package storetest

import (
	"context"
	"time"

	"seedbed"
)

var leaseCases = map[string]func(*bench){
	"claim":                 testClaim,
	"takeover":              testTakeover,
	"takeover of cancelled": testTakeoverCancelled,
	"renewal":               testRenewal,
	"release":               testRelease,
	"stale epoch":           testStale,
	"ended job":             testEnded,
	"unclaimed job":         testUnclaimed,
}

func testClaim(b *bench) {
	ctx := context.Background()
	b.equal(get(b.ClaimJob(ctx, "one", lease))(b), (*seedbed.Job)(nil))
	b.world()
	first := get(b.Accept(ctx, createOf("web1")))(b)
	second := get(b.Accept(ctx, createOf("web2")))(b)
	j := *get(b.ClaimJob(ctx, "one", lease))(b)
	b.equal([]any{j.ID, j.State, j.Owner, j.Epoch, j.Attempts}, []any{first.Job, seedbed.JobRunning, "one", int64(1), 0})
	if left := time.Until(j.LeaseUntil); left > lease || left < lease/2 || j.Started.IsZero() {
		b.Fatalf("the lease ends in %s, started %v", left, j.Started)
	}
	b.equal(get(b.Job(ctx, j.ID))(b), j)
	b.equal(b.claim().ID, second.Job)
	before := b.Hint()
	b.equal(get(b.ClaimJob(ctx, "one", lease))(b), (*seedbed.Job)(nil))
	select {
	case <-before:
		b.Error("a claim of nothing gave the hint")
	default:
	}
	_, err := b.ClaimJob(ctx, "", lease)
	b.want(err, seedbed.ErrInvalid)
	_, err = b.ClaimJob(ctx, "one", 0)
	b.want(err, seedbed.ErrInvalid)
}

// taken waits until a job's lease expires and owner has claimed it.
func (b *bench) taken(owner string) (j *seedbed.Job) {
	b.Helper()
	b.until("takeover", func() bool {
		j = get(b.ClaimJob(context.Background(), owner, lease))(b)
		return j != nil
	})
	return j
}

func testTakeover(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, createOf("web1")))(b)
	old := *get(b.ClaimJob(ctx, "one", 20*time.Millisecond))(b)
	b.must(b.Step(ctx, old.Ref(), seedbed.Step{Next: "volumes", Total: 5}))
	j := b.taken("two")
	b.equal([]any{j.ID, j.State, j.Owner, j.Epoch, j.Stage, j.Attempts}, []any{old.ID, seedbed.JobRunning, "two", old.Epoch + 1, "volumes", 2})
	if !j.Started.Equal(old.Started) {
		b.Errorf("started at %v, and again at %v", old.Started, j.Started)
	}
	_, err := b.RenewLease(ctx, old.Ref(), lease)
	b.want(err, seedbed.ErrStale)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes"}))
	b.equal(get(b.Job(ctx, j.ID))(b).Attempts, 2)
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "define"}))
	b.equal(get(b.Job(ctx, j.ID))(b).Attempts, 1)
}

func testTakeoverCancelled(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, createOf("web1")))(b)
	old := *get(b.ClaimJob(ctx, "one", 20*time.Millisecond))(b)
	b.must(b.CancelJob(ctx, old.ID))
	j := b.taken("two")
	b.equal([]any{j.State, j.Error}, []any{seedbed.JobUndoing, "cancelled"})
	b.must(b.Undo(ctx, j.Ref(), "another cause"))
	b.equal(get(b.Job(ctx, j.ID))(b).Error, "cancelled")
}

func testRenewal(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, createOf("web1")))(b)
	j := *get(b.ClaimJob(ctx, "one", 50*time.Millisecond))(b)
	get(b.RenewLease(ctx, j.Ref(), time.Hour))(b)
	after := get(b.Job(ctx, j.ID))(b)
	if left := time.Until(after.LeaseUntil); left < 50*time.Minute {
		b.Fatalf("the renewed lease ends in %s", left)
	}
	get(b.RenewLease(ctx, j.Ref(), time.Millisecond))(b)
	b.equal(b.taken("two").Epoch, int64(2))
	_, err := b.RenewLease(ctx, j.Ref(), -1)
	b.want(err, seedbed.ErrInvalid)
}

func testRelease(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, createOf("web1")))(b)
	old := *get(b.ClaimJob(ctx, "one", lease))(b)
	b.must(b.Step(ctx, old.Ref(), seedbed.Step{Next: "volumes"}))
	b.must(b.Release(ctx, old.Ref()))
	b.want(b.LogEvent(ctx, old.Ref(), seedbed.Event{Msg: "late"}), seedbed.ErrStale)
	b.want(b.Release(ctx, old.Ref()), seedbed.ErrStale)
	j := *get(b.ClaimJob(ctx, "two", lease))(b)
	b.equal([]any{j.ID, j.Epoch, j.Stage, j.Attempts}, []any{old.ID, old.Epoch + 1, "volumes", 1})
}

// writes returns every write of a job's owner.
func (b *bench) writes(j seedbed.Job, i seedbed.Instance) map[string]func(seedbed.JobRef) error {
	ctx := context.Background()
	return map[string]func(seedbed.JobRef) error{
		"RenewLease": func(r seedbed.JobRef) error { _, err := b.RenewLease(ctx, r, time.Hour); return err },
		"Step": func(r seedbed.JobRef) error {
			return b.Step(ctx, r, seedbed.Step{Done: "volumes", Next: "define", Total: 9, InstanceState: seedbed.InstanceStopped})
		},
		"Publish": func(r seedbed.JobRef) error {
			_, err := b.Publish(ctx, r, node, guestOf(i), seedbed.Documents{UserData: []byte("x")})
			return err
		},
		"Retract":  func(r seedbed.JobRef) error { _, err := b.Retract(ctx, r, node, i.ID); return err },
		"LogEvent": func(r seedbed.JobRef) error { return b.LogEvent(ctx, r, seedbed.Event{Msg: "late", Progress: 99}) },
		"Undo":     func(r seedbed.JobRef) error { return b.Undo(ctx, r, "late") },
		"Undone":   func(r seedbed.JobRef) error { return b.Undone(ctx, r, "volumes", "late") },
		"Finish": func(r seedbed.JobRef) error {
			return b.Finish(ctx, r, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true})
		},
		"Release": func(r seedbed.JobRef) error { return b.Release(ctx, r) },
	}
}

// state returns everything that a job's owner can change.
func (b *bench) state(job seedbed.JobID) []any {
	ctx := context.Background()
	return []any{
		get(b.Job(ctx, job))(b), get(b.Stages(ctx, job))(b), get(b.Events(ctx, job, 0, 0))(b),
		get(b.Instances(ctx))(b), get(b.FeedPage(ctx, node, 0, ""))(b),
	}
}

// refused checks that no write under ref is accepted, and that nothing changes.
func (b *bench) refused(ref seedbed.JobRef, j seedbed.Job, i seedbed.Instance) {
	b.Helper()
	before := b.state(j.ID)
	for name, write := range b.writes(j, i) {
		err := write(ref)
		if err == nil {
			b.Errorf("%s: taken", name)
			continue
		}
		b.want(err, seedbed.ErrStale, j.ID.Short())
		b.equal(b.state(j.ID), before)
	}
}

func testStale(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	get(b.Accept(ctx, a))(b)
	old := *get(b.ClaimJob(ctx, "one", 20*time.Millisecond))(b)
	b.must(b.Step(ctx, old.Ref(), seedbed.Step{Next: "volumes"}))
	i := get(b.Instance(ctx, a.Instance.ID))(b)
	get(b.Publish(ctx, old.Ref(), node, guestOf(i), seedbed.Documents{}))(b)
	j := *b.taken("two")
	b.refused(old.Ref(), j, i)
	b.refused(seedbed.JobRef{ID: j.ID, Epoch: j.Epoch + 1}, j, i)
	for name, write := range b.writes(j, i) {
		if err := write(seedbed.JobRef{ID: seedbed.NewJobID(), Epoch: 1}); err == nil {
			b.Errorf("%s: taken for no job", name)
		} else {
			b.want(err, seedbed.ErrNotFound)
		}
	}
}

func testEnded(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
	b.refused(j.Ref(), j, i)
	b.equal(get(b.ClaimJob(ctx, "two", lease))(b), (*seedbed.Job)(nil))
}

func testUnclaimed(b *bench) {
	ctx := context.Background()
	b.world()
	a := createOf("web1")
	get(b.Accept(ctx, a))(b)
	b.refused(seedbed.JobRef{ID: a.Job.ID}, a.Job, get(b.Instance(ctx, a.Instance.ID))(b))
}
