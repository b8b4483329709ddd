package storetest

import (
	"context"
	"encoding/json"
	"strings"

	"seedbed"
)

var overtakeCases = map[string]func(*bench){
	"forced stop": testForcedStopOvertakes,
}

// testForcedStopOvertakes checks that a forced stop cancels the stop or reboot that asks the guest of
// its instance to shut down, runs however that one ends, and overtakes nothing else.
func testForcedStopOvertakes(b *bench) {
	ctx := context.Background()
	b.world()
	forced := func(i seedbed.Instance) seedbed.Acceptance {
		a := power(seedbed.JobStop, i.ID)
		a.Job.Spec = json.RawMessage(`{"force":true}`)
		return a
	}
	for _, kind := range []seedbed.JobKind{seedbed.JobStop, seedbed.JobReboot} {
		for _, begun := range []bool{true, false} {
			name := string(kind) + "-begun"
			if !begun {
				name = string(kind) + "-queued"
			}
			making, i := b.running(name)
			_, err := b.Accept(ctx, forced(i))
			b.want(err, seedbed.ErrInUse) // a create is not overtaken
			b.must(b.Finish(ctx, making.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceRunning}))
			waits := power(kind, i.ID)
			get(b.Accept(ctx, waits))(b)
			var job seedbed.Job
			if begun {
				job = b.claim()
				b.equal(job.ID, waits.Job.ID)
			}
			_, err = b.Accept(ctx, power(seedbed.JobStop, i.ID))
			b.want(err, seedbed.ErrInUse) // neither by a stop that asks the guest
			stop := forced(i)
			b.equal(get(b.Accept(ctx, stop))(b), seedbed.Receipt{Job: stop.Job.ID, State: seedbed.JobQueued, Cancels: waits.Job.ID})
			_, err = b.Accept(ctx, forced(i))
			b.want(err, seedbed.ErrInUse)
			b.equal(holder(err), stop.Job.ID)
			says := "superseded by stop job " + stop.Job.ID.Short() + ", which switches the instance off at once"
			if begun {
				j := get(b.Job(ctx, stop.Job.ID))(b)
				b.equal([]any{j.After, j.Blocked}, []any{waits.Job.ID, true})
				b.equal(get(b.Job(ctx, waits.Job.ID))(b).Cancel, true)
				b.must(b.Undo(ctx, job.Ref(), "cancelled"))
				b.must(b.Finish(ctx, job.Ref(), seedbed.JobResult{State: seedbed.JobRolledBack, Error: "cancelled"}))
			}
			ended := get(b.Job(ctx, waits.Job.ID))(b)
			b.equal([]any{ended.State, ended.Error}, []any{seedbed.JobRolledBack, says})
			var told bool
			for _, e := range get(b.Events(ctx, ended.ID, 0, 100))(b) {
				told = told || e.Level == "warn" && strings.Contains(e.Msg, says)
			}
			b.equal(told, true)
			j := get(b.Job(ctx, stop.Job.ID))(b)
			b.equal([]any{j.State, j.Blocked}, []any{seedbed.JobQueued, false})
			next := b.claim()
			b.equal(next.ID, stop.Job.ID)
			b.must(b.Finish(ctx, next.Ref(), seedbed.JobResult{State: seedbed.JobSucceeded, InstanceState: seedbed.InstanceStopped}))
		}
	}
}

// power is the acceptance of a job that starts, stops or reboots an instance.
func power(kind seedbed.JobKind, id seedbed.InstanceID) seedbed.Acceptance {
	return seedbed.Acceptance{Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, Instance: id}}
}
