package storetest

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

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

var orphanCases = map[string]func(*bench){
	"undone again":           testUndoneAgain,
	"gone with its instance": testOrphanRemoved,
	"gone with its image":    testOrphanImage,
	"refused":                testUndoAgainRefused,
	"strays":                 testStrays,
}

var ignoreTries = cmpopts.IgnoreFields(seedbed.Orphan{}, "Since", "Tried")

// leave undoes a claimed job except for one stage, which leaves left behind.
func (b *bench) leave(j seedbed.Job, stage string, left ...seedbed.Orphan) {
	b.Helper()
	ctx := context.Background()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: stage, Total: 2}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: stage, Next: "start"}))
	b.must(b.Undo(ctx, j.Ref(), "no KVM"))
	b.must(b.Undone(ctx, j.Ref(), "start", ""))
	b.must(b.Undone(ctx, j.Ref(), stage, "the pool is away", left...))
	b.equal(get(b.Orphans(ctx))(b), []seedbed.Orphan{}) // the job is still being undone
	out := seedbed.JobResult{State: seedbed.JobIncomplete, Error: "no KVM; left behind"}
	if j.Instance != "" {
		out.InstanceState = seedbed.InstanceFailed
	}
	b.must(b.Finish(ctx, j.Ref(), out))
}

func testUndoneAgain(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	b.leave(j, "volumes", seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: "default", Name: "web1-0", Why: "no answer"},
		seedbed.Orphan{Kind: seedbed.OrphanVolume, Pool: "fast", Name: "web1-1", Why: "no answer either"})
	want := []seedbed.Orphan{
		{Job: j.ID, Of: seedbed.JobCreate, Subject: "web1", Project: "default", Instance: i.ID, Node: i.Node, Stage: "volumes",
			Kind: seedbed.OrphanVolume, Pool: "default", Name: "web1-0", Why: "no answer", Tries: 1},
		{Job: j.ID, Of: seedbed.JobCreate, Subject: "web1", Project: "default", Instance: i.ID, Node: i.Node, Stage: "volumes",
			Kind: seedbed.OrphanVolume, Pool: "fast", Name: "web1-1", Why: "no answer either", Tries: 1},
	}
	first := get(b.Orphans(ctx))(b)
	b.equal(first, want, ignoreTries)

	// The second undo leaves something too, and it is not known what.
	again := get(b.UndoAgain(ctx, j.ID))(b)
	b.equal([]any{again.State, again.Stage, again.Error, again.Ended.IsZero()}, []any{seedbed.JobUndoing, "volumes", "no KVM", true})
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceProvisioning)
	_, err := b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrConflict, "undoing")
	held := b.claim()
	b.equal([]any{held.ID, held.State, held.Epoch}, []any{j.ID, seedbed.JobUndoing, j.Epoch + 1})
	b.equal(get(b.Stages(ctx, j.ID))(b)[0].State, seedbed.StageIntent)
	b.must(b.Undone(ctx, held.Ref(), "volumes", "still away"))
	b.must(b.Undone(ctx, held.Ref(), "volumes", "still away")) // as if the first write's commit was unknown
	b.must(b.Finish(ctx, held.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete, InstanceState: seedbed.InstanceFailed}))
	second := get(b.Orphans(ctx))(b)
	b.equal(second, []seedbed.Orphan{{Job: j.ID, Of: seedbed.JobCreate, Subject: "web1", Project: "default",
		Instance: i.ID, Node: i.Node, Stage: "volumes", Kind: seedbed.OrphanStage, Name: "volumes",
		Why: "still away", Tries: second[0].Tries}}, ignoreTries)
	if s := second[0]; s.Tries < 2 || !s.Since.Equal(first[0].Since) || s.Tried.Before(first[0].Tried) {
		b.Errorf("%+v after %+v", s, first[0])
	}

	// The third undo leaves nothing.
	get(b.UndoAgain(ctx, j.ID))(b)
	held = b.claim()
	b.must(b.Undone(ctx, held.Ref(), "volumes", ""))
	b.must(b.Finish(ctx, held.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Drop: true}))
	b.equal(get(b.Orphans(ctx))(b), []seedbed.Orphan{})
	_, err = b.Instance(ctx, i.ID)
	b.want(err, seedbed.ErrNotFound)
	for n, e := range get(b.Events(ctx, j.ID, 0, 0))(b) {
		b.equal(e.Seq, int64(n+1))
	}
	_, err = b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrConflict, "rolled_back")
}

// testOrphanRemoved checks that the orphans of an instance are known until the instance is removed.
func testOrphanRemoved(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	b.leave(j, "define", seedbed.Orphan{Kind: seedbed.OrphanDomain, Name: "web1", Why: "no answer"})
	get(b.Accept(ctx, removeOf(i.ID)))(b)
	_, err := b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrInUse, "remove")
	removal := b.claim()
	b.must(b.Finish(ctx, removal.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(get(b.Orphans(ctx))(b), []seedbed.Orphan{})
	_, err = b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrConflict, "remove")
}

func testOrphanImage(b *bench) {
	ctx := context.Background()
	b.world()
	get(b.Accept(ctx, importOf("other")))(b)
	j := b.claim()
	b.leave(j, "import", seedbed.Orphan{Kind: seedbed.OrphanImage, Pool: "default", Name: "other", Why: "no answer"})
	b.equal(len(get(b.Orphans(ctx))(b)), 1)
	get(b.UndoAgain(ctx, j.ID))(b)
	held := b.claim()
	b.must(b.Undone(ctx, held.Ref(), "import", "no answer"))
	b.must(b.Finish(ctx, held.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete}))
	b.equal(len(get(b.Orphans(ctx))(b)), 1)
	removing := seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, Subject: "other"}}
	get(b.Accept(ctx, removing))(b)
	r := b.claim()
	b.must(b.Finish(ctx, r.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, Drop: true}))
	b.equal(get(b.Orphans(ctx))(b), []seedbed.Orphan{})
	_, err := b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrNotFound, "other")
}

func testUndoAgainRefused(b *bench) {
	ctx := context.Background()
	b.world()
	_, err := b.UndoAgain(ctx, seedbed.NewJobID())
	b.want(err, seedbed.ErrNotFound)
	// If another job has worked on the instance since, nothing is undone.
	i := b.instance("web1")
	snapshot := func() seedbed.Job {
		get(b.Accept(ctx, seedbed.Acceptance{
			Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobSnapshot, Instance: i.ID, Spec: []byte(`{"name":"one"}`)},
		}))(b)
		return b.claim()
	}
	j := snapshot()
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "snapshot", Total: 1}))
	b.must(b.Undo(ctx, j.Ref(), "no room"))
	b.must(b.Undone(ctx, j.Ref(), "snapshot", "no answer"))
	b.must(b.Finish(ctx, j.Ref(), seedbed.JobResult{State: seedbed.JobIncomplete}))
	later := snapshot()
	_, err = b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrInUse, "snapshot")
	b.must(b.Finish(ctx, later.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded}))
	_, err = b.UndoAgain(ctx, j.ID)
	b.want(err, seedbed.ErrConflict, later.ID.Short())
	b.equal(len(get(b.Orphans(ctx))(b)), 1)
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRunning)
}

// testStrays checks that a stray is listed once it was seen twice, and until it is no longer seen
// on its node.
func testStrays(b *bench) {
	ctx := context.Background()
	project := ""
	on := func(node string, names ...string) (all []seedbed.Orphan) {
		for _, n := range names {
			all = append(all, seedbed.Orphan{Kind: seedbed.OrphanVolume, Node: node, Pool: "default",
				Name: n, Instance: "ec200000-0000-4000-8000-000000000001", Project: project, Why: "nobody's"})
		}
		return all
	}
	told := func() (all []string) {
		b.Helper()
		for _, o := range get(b.Strays(ctx))(b) {
			all = append(all, o.Node+" "+o.Name)
			if o.Kind != seedbed.OrphanVolume || o.Pool != "default" || o.Instance == "" || o.Why == "" || o.Project != project || o.Tries < 2 ||
				o.Tried.Before(o.Since) {
				b.Errorf("%+v", o)
			}
		}
		return all
	}
	b.must(b.NoteStrays(ctx, []string{"n1", "n2"}, append(on("n1", "a", "b"), on("n2", "c")...)))
	b.equal(told(), []string(nil))
	b.must(b.NoteStrays(ctx, []string{"n1"}, on("n1", "a")))
	b.equal(told(), []string{"n1 a"})
	project = "acme" // the tags of these resources say it now
	b.must(b.NoteStrays(ctx, []string{"n1", "n2"}, append(on("n1", "a", "b"), on("n2", "c")...)))
	b.equal(told(), []string{"n1 a", "n2 c"})
	before := b.Hint()
	b.must(b.NoteStrays(ctx, []string{"n2"}, nil))
	b.must(b.NoteStrays(ctx, []string{"n1"}, nil))
	b.equal(told(), []string(nil))
	select {
	case <-before:
	default:
		b.Error("no hint of what was written")
	}
	before = b.Hint()
	b.must(b.NoteStrays(ctx, []string{"n1"}, nil))
	select {
	case <-before:
		b.Error("a look that found nothing gave the hint")
	default:
	}
}
