package storetest

import (
	"context"
	"strings"

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
