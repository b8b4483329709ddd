package provision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"seedbed"
	"seedbed/provision/engine"
	"seedbed/provision/worker/drivertest"
)

// createWith is create with job options.
func (l *lab) createWith(name string, o seedbed.JobOptions) seedbed.JobID {
	l.t.Helper()
	req := seedbed.Request{Action: "create", Name: name, Profile: "small", JobOptions: o}
	return l.job(l.intake.Submit(l.t.Context(), req, nil))
}

func keeping() seedbed.JobOptions {
	return seedbed.JobOptions{OnFailure: seedbed.OnFailure{Policy: seedbed.FailKeep}}
}

func retries(attempts int, backoff time.Duration) seedbed.JobOptions {
	return seedbed.JobOptions{OnFailure: seedbed.OnFailure{Policy: seedbed.FailRetry, Attempts: attempts, Backoff: backoff}}
}

// refuse makes an effect of the hypervisor fail that many times.
func (l *lab) refuse(effect string, times int32) (failed *atomic.Int32) {
	failed = new(atomic.Int32)
	l.hv.Fail(func(_ context.Context, name string, at drivertest.Point) error {
		if name == effect && at == drivertest.Before && failed.Load() < times {
			failed.Add(1)
			return seedbed.Errorf(seedbed.ErrForbidden, "%s is refused", name)
		}
		return nil
	})
	return failed
}

// TestKeep checks that a job with the policy keep leaves everything where it failed, and continues
// from there when it is retried.
func TestKeep(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	l.refuse("StartDomain", 1)
	id := l.createWith("web1", keeping())
	job := l.runUntil(id, seedbed.JobFailed)
	if job.Error != "stage start: start domain web1: StartDomain is refused" || job.Stage != "start" {
		t.Errorf("job %+v", job)
	}
	done := map[string]seedbed.StageState{
		"volumes": seedbed.StageDone, "define": seedbed.StageDone, "publish": seedbed.StageDone, "start": seedbed.StageIntent,
	}
	l.stageStates(id, done)
	inst, err := l.db.InstanceByName(t.Context(), seedbed.InDefault("web1"))
	l.ok(err)
	volumes, _ := l.pool.Volumes(t.Context())
	if inst.State != seedbed.InstanceFailed || len(volumes) != 1 {
		t.Errorf("instance is %s, volumes %v", inst.State, volumes)
	}
	l.domain(inst.ID, seedbed.DomainOff)

	var effects []string
	l.pool.Fail(func(_ context.Context, name string, _ drivertest.Point) error {
		effects = append(effects, name)
		return nil
	})
	_, err = l.db.ResumeJob(t.Context(), id)
	l.ok(err)
	after := l.runUntil(id, seedbed.JobSucceeded)
	if len(effects) != 0 || after.Epoch != job.Epoch+1 || after.Error != "" {
		t.Errorf("once more: %v, %+v", effects, after)
	}
	l.up("web1")
}

// TestKeptIsRemoved checks that what was kept is removed with its instance.
func TestKeptIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyMetadata)
	l.refuse("StartDomain", 1)
	l.runUntil(l.createWith("web1", keeping()), seedbed.JobFailed)
	l.runUntil(l.remove("web1"), seedbed.JobSucceeded)
	l.nothing("web1")
}

// TestCancelOfAKeeper checks that a cancelled job is undone, even with the policy keep.
func TestCancelOfAKeeper(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyReport)
	l.mute.Store(true)
	id := l.createWith("web1", keeping())
	p := l.start()
	l.eventually("ready", func() bool { return strings.Contains(l.history(id), "waiting until") })
	l.ok(l.db.CancelJob(t.Context(), id))
	l.wait(id, seedbed.JobRolledBack)
	p.stop()
	l.nothing("web1")
}

func TestRetryOfAStage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		times int32
		ends  seedbed.JobState
	}{{"helps", 2, seedbed.JobSucceeded}, {"does not help", 100, seedbed.JobRolledBack}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t).withProfile(seedbed.ReadyStarted)
			failed := l.refuse("DefineDomain", test.times)
			id := l.createWith("web1", retries(3, 10*time.Millisecond))
			l.runUntil(id, test.ends)
			if n := failed.Load(); n != min(3, test.times) {
				t.Errorf("%d attempts failed", n)
			}
			h := l.history(id)
			if !strings.Contains(h, "trying again in 10ms (2 of 3)") || !strings.Contains(h, "trying again in 20ms (3 of 3)") {
				t.Errorf("history:\n%s", h)
			}
			if test.ends == seedbed.JobSucceeded {
				l.up("web1")
			} else {
				l.nothing("web1")
			}
		})
	}
}

// TestRetryTakesNoRoom checks that a job that waits for its next attempt leaves its slot to others,
// and can be cancelled while it waits.
func TestRetryTakesNoRoom(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.refuse("DefineDomain", 1)
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Workers, c.PerNode, c.PerPool = 1, 1, 1 }
	waiting := l.createWith("web1", retries(3, time.Hour))
	other := l.create("web2")
	p := l.start()
	l.wait(other, seedbed.JobSucceeded)
	job, err := l.db.Job(t.Context(), waiting)
	l.ok(err)
	if job.State != seedbed.JobRunning || job.Owner != "" || job.Stage != "define" {
		t.Fatalf("job %+v", job)
	}
	l.ok(l.db.CancelJob(t.Context(), waiting))
	began := time.Now()
	l.wait(waiting, seedbed.JobRolledBack)
	if d := time.Since(began); d > promptly {
		t.Errorf("it took %s", d)
	}
	p.stop()
}

// TestPriorityAndOrder checks that a job of a higher priority runs first, and that a job that waits
// for another runs only after that has succeeded.
func TestPriorityAndOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	l.tune = func(c *engine.Config, _ *engine.Intervals) { c.Workers = 1 }
	first := l.create("web1")
	last := l.createWith("web2", seedbed.JobOptions{After: first, Priority: seedbed.PriorityHigh})
	high := l.createWith("web3", seedbed.JobOptions{Priority: seedbed.PriorityHigh})
	p := l.start()
	var at []time.Time
	for _, id := range []seedbed.JobID{high, first, last} {
		at = append(at, l.wait(id, seedbed.JobSucceeded).Started)
	}
	p.stop()
	if !at[0].Before(at[1]) || !at[1].Before(at[2]) {
		t.Errorf("started at %v", at)
	}
}

// TestForeignJobs checks that what a newer seedbedd has begun is left to it: a kind and a stage
// that this one does not know.
func TestForeignJobs(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	for _, undo := range []bool{false, true} {
		name := fmt.Sprintf("web-%v", undo)
		id := l.create(name)
		job, err := l.db.ClaimJob(t.Context(), "newer", time.Minute)
		l.ok(err)
		if job == nil || job.ID != id {
			t.Fatalf("claimed %+v", job)
		}
		l.ok(l.db.Step(t.Context(), job.Ref(), seedbed.Step{Next: "attest", Total: 9}))
		if undo {
			l.ok(l.db.Undo(t.Context(), job.Ref(), "no"))
		}
		l.ok(l.db.Release(t.Context(), job.Ref()))
		p := l.start()
		l.eventually("the job to be left", func() bool {
			j, err := l.db.Job(t.Context(), id)
			l.ok(err)
			return j.Epoch > job.Epoch && j.Owner == ""
		})
		p.stop()
		j, err := l.db.Job(t.Context(), id)
		l.ok(err)
		if j.State.Terminal() || j.Stage != "attest" || j.Attempts > 1 || time.Until(j.LeaseUntil) < 10*time.Second {
			t.Errorf("job %+v", j)
		}
	}
}

// TestOutput checks that a stage's output is written in order, while the stage runs and at its end,
// under the stage's name.
func TestOutput(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	id := l.create("web1")
	line := func(n int) seedbed.OutputLine {
		return seedbed.OutputLine{Stream: "stdout", Text: fmt.Sprintf("%05d ", n) + strings.Repeat("x", 100)}
	}
	var output func(seedbed.OutputLine)
	l.pool.Fail(func(ctx context.Context, name string, at drivertest.Point) error {
		if name != "CloneVolume" || at != drivertest.Before {
			return nil
		}
		output = seedbed.OutputOf(ctx)
		output(line(0))
		if !l.soon(func() bool { return len(l.output(id)) == 1 }) {
			return errors.New("no line is written before the stage's end")
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for n := range 500 {
					output(line(n))
				}
			})
		}
		group.Wait()
		return nil
	})
	l.runUntil(id, seedbed.JobSucceeded)
	output(line(1)) // too late: it is dropped
	lines := l.output(id)
	if len(lines) != 2001 || lines[0].Stage != "volumes" || lines[2000].N != 2001 {
		t.Errorf("%d lines", len(lines))
	}
}

func (l *lab) output(id seedbed.JobID) []seedbed.JobOutput {
	l.t.Helper()
	lines, err := l.db.JobOutput(l.t.Context(), id, "", 0, 0)
	l.ok(err)
	return lines
}

// TestStageHooks checks when hooks run, that the failure of a required one prevents its stage from
// beginning or being committed, and that the failure of another does not.
func TestStageHooks(t *testing.T) {
	t.Parallel()
	l := newLab(t).withProfile(seedbed.ReadyStarted)
	var mu sync.Mutex
	var told []string
	ids := map[string]int{}
	broken := errors.New("no answer")
	l.tune = func(c *engine.Config, _ *engine.Intervals) {
		c.Hooks = []seedbed.StageHook{
			{Kind: seedbed.JobCreate, Stage: "define", When: seedbed.HookBefore, Endpoint: "cmdb", Required: true, Timeout: 5 * time.Second},
			{Stage: "define", When: seedbed.HookAfter, Endpoint: "chat", Timeout: 50 * time.Millisecond},
			{Kind: seedbed.JobRemove, Stage: "define", When: seedbed.HookAfter, Endpoint: "other"},
			{Kind: seedbed.JobRemove, Stage: "undefine", When: seedbed.HookBefore, Endpoint: "gate", Required: true, Timeout: 20 * time.Millisecond},
		}
		c.Trigger = func(_ context.Context, endpoint string, o seedbed.Outgoing) error {
			mu.Lock()
			defer mu.Unlock()
			ids[o.ID]++
			if domains, _ := l.hv.Domains(context.Background()); ids[o.ID] == 1 {
				told = append(told, fmt.Sprintf("%s %d", endpoint, len(domains)))
			}
			if endpoint == "cmdb" && ids[o.ID] > 1 {
				return nil
			}
			return broken
		}
		c.Attempts = 2
	}
	id := l.create("web1")
	l.runUntil(id, seedbed.JobSucceeded)
	if d := cmp.Diff([]string{"cmdb 0", "chat 1"}, told); d != "" {
		t.Errorf("hooks (-want +got):\n%s", d)
	}
	if h := l.history(id); !strings.Contains(h, "hook before the stage: endpoint cmdb has received it") ||
		!strings.Contains(h, "endpoint chat: no answer (gave up after 50ms); going on without it") {
		t.Errorf("history:\n%s", h)
	}
	job := l.runUntil(l.remove("web1"), seedbed.JobFailed)
	if !strings.HasPrefix(job.Error, "stage undefine: hook before the stage, endpoint gate: no answer") {
		t.Errorf("error %q", job.Error)
	}
	if domains, _ := l.hv.Domains(t.Context()); len(domains) != 1 {
		t.Errorf("domains %v", domains)
	}
}
