package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"seedbed"
)

var journalCases = map[string]func(*bench){
	"forward":            testForward,
	"backward":           testBackward,
	"steps out of order": testDisorder,
	"repeated writes":    testRepeated,
	"image of no import": testStrayImage,
	"long texts":         testLongTexts,
}

var ignoreTimes = cmpopts.IgnoreFields(seedbed.Stage{}, "Started", "Ended")

func testForward(b *bench) {
	ctx := context.Background()
	b.world()
	j, i := b.running("web1")
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	b.must(b.LogEvent(ctx, j.Ref(), seedbed.Event{Msg: "half", Progress: 50}))
	now := get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.Stage, now.Done, now.Total, now.Progress, now.Attempts}, []any{"volumes", 0, 2, 50, 1})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "start"}))
	now = get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.Stage, now.Done, now.Total, now.Progress, now.Attempts}, []any{"start", 1, 2, 0, 1})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "start", InstanceState: seedbed.InstanceRunning}))
	now = get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.State, now.Stage, now.Done, now.Total}, []any{seedbed.JobRunning, "", 2, 2})
	b.equal(get(b.Instance(ctx, i.ID))(b).State, seedbed.InstanceRunning)
	stages := get(b.Stages(ctx, j.ID))(b)
	b.equal(stages, []seedbed.Stage{
		{Job: j.ID, N: 1, Name: "volumes", State: seedbed.StageDone},
		{Job: j.ID, N: 2, Name: "start", State: seedbed.StageDone},
	}, ignoreTimes)
	if stages[0].Started.IsZero() || stages[0].Ended.Before(stages[0].Started) {
		b.Errorf("stage times: %+v", stages[0])
	}
}

func testBackward(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 3}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "define"}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "define", Next: "start"}))
	b.want(b.Undone(ctx, j.Ref(), "start", ""), seedbed.ErrConflict, "running")
	b.must(b.Undo(ctx, j.Ref(), "no KVM"))
	b.must(b.Undo(ctx, j.Ref(), "second cause"))
	now := get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.State, now.Error, now.Stage, now.Done}, []any{seedbed.JobUndoing, "no KVM", "start", 2})
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Done: "start"}), seedbed.ErrConflict, "undoing")
	b.must(b.Undone(ctx, j.Ref(), "start", ""))
	b.must(b.Undone(ctx, j.Ref(), "define", "domain stays"))
	now = get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.Stage, now.Done}, []any{"volumes", 1})
	b.must(b.Undone(ctx, j.Ref(), "volumes", ""))
	b.equal(get(b.Stages(ctx, j.ID))(b), []seedbed.Stage{
		{Job: j.ID, N: 1, Name: "volumes", State: seedbed.StageUndone},
		{Job: j.ID, N: 2, Name: "define", State: seedbed.StageOrphans, Error: "domain stays"},
		{Job: j.ID, N: 3, Name: "start", State: seedbed.StageUndone, Error: "no KVM"},
	}, ignoreTimes)
	b.want(b.Undone(ctx, j.Ref(), "ready", ""), seedbed.ErrConflict, `"ready"`)
	_, err := b.Publish(ctx, j.Ref(), node, seedbed.Guest{ID: j.Instance}, seedbed.Documents{})
	b.want(err, seedbed.ErrConflict, "undoing")
}

func testDisorder(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "define"}), seedbed.ErrConflict, `"volumes"`)
	b.equal(get(b.Stages(ctx, j.ID))(b), []seedbed.Stage{})
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes"}))
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "define"}))
	before := b.state(j.ID)
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Done: "define", Next: "volumes"}), seedbed.ErrConflict, `"volumes"`)
	b.equal(b.state(j.ID), before)
}

// A writer that does not know whether it committed writes again.
func testRepeated(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	steps := []seedbed.Step{{Next: "volumes", Total: 2}, {Done: "volumes", Next: "define"}, {Done: "define"}}
	for _, s := range steps {
		b.must(b.Step(ctx, j.Ref(), s))
		before := b.state(j.ID)
		b.must(b.Step(ctx, j.Ref(), s))
		b.equal(b.state(j.ID), before)
	}
	b.must(b.Undo(ctx, j.Ref(), "cause"))
	for range 2 {
		b.must(b.Undone(ctx, j.Ref(), "define", ""))
		b.equal(get(b.Job(ctx, j.ID))(b).Stage, "volumes")
	}
}

func testStrayImage(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Next: "x", Image: &seedbed.ImageInfo{}}), seedbed.ErrInvalid, "create job")
	get(b.Accept(ctx, importOf("other")))(b)
	j = b.claim()
	b.want(b.Step(ctx, j.Ref(), seedbed.Step{Next: "import", InstanceState: seedbed.InstanceRunning}), seedbed.ErrConflict, "no instance")
	b.equal(get(b.Stages(ctx, j.ID))(b), []seedbed.Stage{})
}

func testLongTexts(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes"}))
	b.must(b.Undo(ctx, j.Ref(), strings.Repeat("x", 1<<20)))
	b.must(b.Undone(ctx, j.Ref(), "volumes", strings.Repeat("y", 1<<20)))
	if n := len(get(b.Job(ctx, j.ID))(b).Error); n > 4096 {
		b.Errorf("the job's error has %d bytes", n)
	}
	if n := len(get(b.Stages(ctx, j.ID))(b)[0].Error); n > 4096 {
		b.Errorf("the stage's error has %d bytes", n)
	}
}

var stepCases = map[string]func(*bench){
	"of many jobs at once": testStepsOfMany,
	"two of one job":       testStepsOfOne,
}

// Concurrent writes of job owners may share a transaction. Each is still accepted or refused by
// itself, and a refused one leaves nothing behind.
func testStepsOfMany(b *bench) {
	ctx := context.Background()
	b.world()
	const most = 24
	jobs := make([]seedbed.Job, most)
	for n := range jobs {
		jobs[n], _ = b.running(fmt.Sprintf("web%d", n))
	}
	wrong := func(n int) error { // the expected error of the nth job's second step
		switch n % 6 {
		case 1:
			return seedbed.ErrStale
		case 3:
			return seedbed.ErrConflict
		}
		return nil
	}
	said := func(what string) []seedbed.Event {
		return []seedbed.Event{{Stage: "volumes", Msg: what + ", first"}, {Stage: "volumes", Msg: what + ", second", Progress: 100}}
	}
	var all sync.WaitGroup
	for n, j := range jobs {
		all.Go(func() {
			ref := j.Ref()
			b.must(b.Step(ctx, ref, seedbed.Step{Next: "volumes", Total: 2, Events: said("begun")}))
			step := seedbed.Step{Done: "volumes", Next: "start", Events: said("over")}
			switch wrong(n) {
			case seedbed.ErrStale:
				ref.Epoch++
				b.want(b.Step(ctx, ref, step), seedbed.ErrStale)
				b.want(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}), seedbed.ErrStale)
				return
			case seedbed.ErrConflict:
				step.Done = "define"
				b.want(b.Step(ctx, ref, step), seedbed.ErrConflict, `"define"`)
				return
			}
			b.must(b.Step(ctx, ref, step))
			b.must(b.Step(ctx, ref, seedbed.Step{Done: "start"}))
			b.must(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}))
			b.want(b.Finish(ctx, ref, seedbed.JobResult{State: seedbed.JobSucceeded}), seedbed.ErrStale)
		})
	}
	all.Wait()
	for n, j := range jobs {
		now := get(b.Job(ctx, j.ID))(b)
		facts := []any{now.State, now.Stage, now.Done, now.Total, now.Progress, len(get(b.Stages(ctx, j.ID))(b)), now.Owner == ""}
		told := 1 + 2 // one when it was accepted, and two when it started
		if wrong(n) == nil {
			told += 2 + 1
			b.equal(facts, []any{seedbed.JobSucceeded, "", 2, 2, 100, 2, true})
		} else {
			b.equal(facts, []any{seedbed.JobRunning, "volumes", 0, 2, 0, 1, false})
		}
		events := get(b.Events(ctx, j.ID, 0, 0))(b)
		b.equal(len(events), told)
		for i, e := range events {
			b.equal(e.Seq, int64(i+1))
		}
		if wrong(n) == nil {
			b.equal([]any{events[3].Msg, events[4].Msg, events[5].Msg, events[5].Progress}, []any{"over, first", "over, second", "succeeded", 100})
		}
	}
}

// If two writers both believe that they own one job, equal writes of both succeed, and nothing is
// written twice.
func testStepsOfOne(b *bench) {
	ctx := context.Background()
	b.world()
	j, _ := b.running("web1")
	b.must(b.Step(ctx, j.Ref(), seedbed.Step{Next: "volumes", Total: 2}))
	var both sync.WaitGroup
	for range 8 {
		both.Go(func() { b.must(b.Step(ctx, j.Ref(), seedbed.Step{Done: "volumes", Next: "start"})) })
	}
	both.Wait()
	now := get(b.Job(ctx, j.ID))(b)
	b.equal([]any{now.Stage, now.Done, len(get(b.Stages(ctx, j.ID))(b))}, []any{"start", 1, 2})
}

// testDone holds that a change that a delivery asks for is made once, and recorded with it, in whatever order its copies come.
func testDone(b *bench) {
	b.world()
	asked := delivery("msg_1", "body")
	asked.Detail, asked.Peer, asked.Payload = "network-set default", "192.0.2.1", []byte("body")
	on := func(d *seedbed.Delivery) context.Context {
		return seedbed.WithChange(context.Background(), &seedbed.Change{Actor: "hook ci", Project: seedbed.DefaultProject, Delivery: d})
	}
	mtu := func(to int) func(*seedbed.Network) error {
		return func(n *seedbed.Network) error { n.MTU = to; return nil }
	}
	ctx := context.Background()
	b.must(b.RecordDelivery(ctx, *asked)) // as an earlier attempt that was refused
	get(b.ChangeNetwork(on(asked), "default", mtu(1400)))(b)
	want := *asked
	want.Decision = seedbed.DecisionDone
	b.equal(get(b.Delivery(ctx, "ci", "msg_1"))(b), want)
	b.equal(*get(b.EarlierReceipt(ctx, *asked))(b), seedbed.Receipt{Duplicate: true})
	_, err := b.EarlierReceipt(ctx, *delivery("msg_1", "other"))
	b.want(err, seedbed.ErrConflict, "another body")
	_, err = b.ChangeNetwork(on(asked), "default", mtu(1300))
	b.want(err, seedbed.ErrExists)
	b.equal(get(b.Network(ctx, "default"))(b).MTU, 1400)
	b.equal(len(get(b.Audit(ctx, seedbed.AuditQuery{Scope: seedbed.AllProjects(), Actor: "hook ci"}))(b)), 1)
	a := createOf("web1")
	a.Delivery = asked
	b.equal(get(b.Accept(ctx, a))(b), seedbed.Receipt{Duplicate: true}) // and makes no instance
	_, err = b.InstanceByName(ctx, seedbed.InDefault("web1"))
	b.want(err, seedbed.ErrNotFound)
	same := delivery("msg_2", "body") // of a change that is none
	get(b.ChangeNetwork(on(same), "default", mtu(1400)))(b)
	b.equal(get(b.EarlierReceipt(ctx, *same))(b), (*seedbed.Receipt)(nil))
	same.Decision = seedbed.DecisionDone
	b.must(b.RecordDelivery(ctx, *same))
	again := *same
	again.Detail = "not recorded again"
	b.must(b.RecordDelivery(ctx, again))
	b.equal(get(b.Delivery(ctx, "ci", "msg_2"))(b).Detail, "")
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{Decision: seedbed.DecisionDone}))(b)), 2)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{Decision: seedbed.DecisionAccepted}))(b)), 0)
	b.equal(len(get(b.Deliveries(ctx, seedbed.DeliveryQuery{}))(b)), 2)
	many, errs := delivery("msg_3", "body"), make([]error, 8)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() { _, errs[i] = b.ChangeNetwork(on(many), "default", mtu(1500+i)) })
	}
	wait.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else {
			b.want(err, seedbed.ErrExists)
		}
	}
	b.equal(made, 1)
	b.equal(get(b.DropDeliveries(ctx, time.Now().Add(time.Hour)))(b), 4) // that of the refusal as well
}
