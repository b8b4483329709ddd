package storetest

import (
	"context"
	"fmt"
	"sync"

	"seedbed"
)

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
