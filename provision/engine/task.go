package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
	"seedbed/provision/effects"
)

// Task is one job that this engine runs, for one epoch. The functions of its plan act for the job
// through it.
type Task struct {
	// Job is the job as it was claimed, and Ref names it in writes.
	Job *seedbed.Job
	Ref seedbed.JobRef
	// Result is what the current stage has found and changed.
	Result Result

	engine *Engine
	plan   Plan
	lease  *leaseKeeper
	slot   *slot
	log    *slog.Logger
	// stage is the current stage, and reported its last reported percentage.
	stage    string
	reported int
	// resumed is the stage that was current when the job was claimed; empty for a new job.
	resumed string
	// out is the current stage's output that is not written yet.
	out outputBuffer
	// said are the events that are not written yet.
	said eventBuffer
	// settled maps each pool to the node that is asked for effects on it, after all other nodes
	// have stopped working on the job there.
	settled map[string]string
}

// Result is what a stage has found and changed. It is recorded together with the stage's end.
type Result struct {
	// State is the instance's state after the stage, instead of the plan's; empty uses the plan's.
	State seedbed.InstanceState
	// Image is what an import found, and Images are the images that were made of an OVA.
	Image  *seedbed.ImageInfo
	Images []seedbed.ImageInfo
	// Resized is what has changed of the instance's size; nil for nothing.
	Resized *seedbed.ResizeSpec
	// Flattened is set if the instance's volumes were made independent of their image.
	Flattened bool
	// Renamed is the other name that the instance has from now on; empty for none.
	Renamed string
}

// work runs a claimed job, which has a slot, until the job ends or is lost, or the engine stops.
func (e *Engine) work(ctx context.Context, job *seedbed.Job, claimed time.Time, slot *slot) {
	t := &Task{
		engine: e, Job: job, Ref: job.Ref(), stage: job.Stage, resumed: job.Stage, reported: job.Progress,
		lease: e.keepLease(ctx, job.Ref(), claimed), slot: slot,
		log: e.log.With("job", job.ID, "kind", job.Kind, "subject", job.Subject, "epoch", job.Epoch),
	}
	t.plan = e.planner.Plan(t)
	e.domains.busy(job.Instance, true)
	err := t.run()
	t.endOutput()
	t.tell()
	t.lease.release()
	e.domains.busy(job.Instance, false)
	defer t.slot.release()
	switch {
	case err == nil:
	case errors.Is(err, errPostponed):
		t.log.Info("job postponed", "stage", t.stage, "attempts", t.Job.Attempts)
	case errors.Is(err, ErrLost):
		t.log.Warn("job lost to another holder", "stage", t.stage, "err", err)
	case ctx.Err() != nil:
		err := t.Write(ctx, func(ctx context.Context) error { return e.store.Release(ctx, t.Ref) })
		t.log.Info("job released", "stage", t.stage, "err", err)
	default:
		t.log.Error("job left to its lease", "stage", t.stage, "err", err)
	}
}

// run takes the job to its end. An error means that the job has not ended.
func (t *Task) run() error {
	if t.Job.State == seedbed.JobUndoing {
		return t.backward(t.lease.leased)
	}
	err := t.forward(t.lease.forward)
	var broken *storeError
	switch {
	case err == nil, errors.Is(err, ErrLost), errors.As(err, &broken):
		return err
	case t.lease.leased.Err() != nil:
		return context.Cause(t.lease.leased)
	case errors.Is(err, errForeign):
		return t.abandon(err)
	case t.shouldRetry(err):
		return t.postpone(err)
	}
	var crash *panicError
	if errors.As(err, &crash) {
		t.Event("error", t.reported, "%s\n%s", crash, seedbed.ClipTo(string(crash.stack), 3<<10))
		t.log.Error("stage panicked", "stage", t.stage, "err", err)
	}
	cause := err.Error()
	if t.stage != "" && !errors.Is(err, errCancelled) {
		cause = fmt.Sprintf("stage %s: %s", t.stage, err)
	}
	t.Event("error", t.reported, "%s", cause)
	if t.Job.Kind.Forward() || t.planned(t.stage).Final {
		return t.finish(t.lease.leased, t.failure(cause, err))
	}
	if t.Job.OnFailure.Policy == seedbed.FailKeep && !errors.Is(err, errCancelled) {
		err := t.finish(t.lease.leased, t.kept(cause))
		if !errors.Is(err, errCancelled) {
			return err
		}
		cause = err.Error()
	}
	if err := t.Write(t.lease.leased, func(ctx context.Context) error { return t.engine.store.Undo(ctx, t.Ref, cause) }); err != nil {
		return err
	}
	t.Job.State, t.Job.Error = seedbed.JobUndoing, cause
	return t.backward(t.lease.leased)
}

// forward runs the stages that are not done yet, and ends the job.
func (t *Task) forward(ctx context.Context) error {
	plan := t.plan.Stages
	n := t.Job.Done
	switch {
	case plan == nil:
		return fmt.Errorf("%w: it knows no job of kind %q", errForeign, t.Job.Kind)
	case n > len(plan), n < len(plan) && t.Job.Stage != "" && t.Job.Stage != plan[n].Name:
		return fmt.Errorf("%w: it knows no stage %q at place %d of a %s job", errForeign, t.Job.Stage, n+1, t.Job.Kind)
	case t.Job.Attempts > max(t.engine.cfg.Attempts, t.Job.OnFailure.Attempts):
		return fmt.Errorf("started %d times without coming to its end", t.Job.Attempts-1)
	case n < len(plan) && t.Job.Stage == "":
		if err := t.step(ctx, seedbed.Step{Next: plan[n].Name, Final: plan[n].Final, Total: len(plan)}); err != nil {
			return err
		}
	}
	for ; n < len(plan); n++ {
		if plan[n].Final {
			ctx = t.lease.leased
		}
		err := t.hooks(ctx, plan[n].Name, seedbed.HookBefore)
		if err == nil {
			err = t.runStage(ctx, plan[n])
		}
		if err == nil {
			err = t.hooks(ctx, plan[n].Name, seedbed.HookAfter)
		}
		t.flush(t.stage)
		if err != nil {
			return err
		}
		step := seedbed.Step{Done: plan[n].Name, Total: len(plan), InstanceState: cmp.Or(t.Result.State, plan[n].State),
			Image: t.Result.Image, Images: t.Result.Images, Flattened: t.Result.Flattened, Resized: t.Result.Resized,
			Renamed: t.Result.Renamed}
		if n+1 < len(plan) {
			step.Next, step.Final = plan[n+1].Name, plan[n+1].Final
		}
		t.Result = Result{}
		if err := t.step(ctx, step); err != nil {
			return err
		}
	}
	return t.finish(ctx, seedbed.JobResult{State: seedbed.JobSucceeded, Drop: t.plan.Drops})
}

// limit returns the time limit of one attempt of a stage.
func (t *Task) limit(ctx context.Context, s Stage) time.Duration {
	if s.Limit != nil {
		return s.Limit(ctx)
	}
	return t.StageLimit(s.Name)
}

// StageLimit returns the limit of one attempt of a stage, by the stage's name.
func (t *Task) StageLimit(name string) time.Duration {
	if limit := t.Timeout(name); limit > 0 {
		return limit
	}
	return 10 * time.Minute
}

// Timeout returns the configured time of a stage, by the stage's name; zero if there is none.
func (t *Task) Timeout(name string) time.Duration { return t.engine.cfg.StageTimeout[name] }

// runStage runs one stage. It retries what does not answer until the stage's time is over. A
// removal, which cannot be undone, retries after any error.
func (t *Task) runStage(ctx context.Context, s Stage) error {
	limit := t.limit(ctx, s)
	for tries, wait := max(1, t.Job.Attempts), t.engine.intervals.RetryMin; ; tries, wait = tries+1, min(2*wait, t.engine.intervals.RetryMax) {
		err := t.retrying(ctx, limit, s.Run, Unavailable)
		var broken *storeError
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrLost) || errors.As(err, &broken) ||
			!t.Job.Kind.Forward() && !s.Final || tries >= t.engine.cfg.Attempts {
			return err
		}
		t.Event("warn", t.reported, "%s; trying again (%d of %d)", err, tries, t.engine.cfg.Attempts)
		if sleep.For(ctx, wait); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (t *Task) step(ctx context.Context, s seedbed.Step) error {
	if err := t.lease.check(ctx); err != nil && s.Done == "" {
		return err // what is done is still recorded; nothing new is begun
	}
	err := t.withEvents(func(events []seedbed.Event) error {
		s.Events = events
		return t.Write(ctx, func(ctx context.Context) error { return t.engine.store.Step(ctx, t.Ref, s) })
	})
	if err == nil {
		t.stage, t.reported, t.Job.Attempts = s.Next, 0, 1
	}
	return t.orCancelled(ctx, err)
}

// orCancelled returns errCancelled if the store has refused a commit, with err, because the job is
// to be cancelled. Otherwise it returns err. The store sees a cancel that the lease keeper has not
// seen yet.
func (t *Task) orCancelled(ctx context.Context, err error) error {
	if !errors.Is(err, seedbed.ErrConflict) {
		return err
	}
	if errors.Is(context.Cause(ctx), errCancelled) {
		return errCancelled
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.engine.intervals.Call)
	defer cancel()
	if job, readErr := t.engine.store.Job(ctx, t.Ref.ID); readErr == nil && job.Cancel {
		return errCancelled
	}
	return err
}

func (t *Task) finish(ctx context.Context, out seedbed.JobResult) error {
	t.tell()
	err := t.Write(ctx, func(ctx context.Context) error { return t.engine.store.Finish(ctx, t.Ref, out) })
	if err == nil {
		t.log.Info("job ended", "state", out.State, "error", out.Error)
	}
	return t.orCancelled(ctx, err)
}

// Write does one write for the job. The end of ctx does not interrupt it, because a write with an
// unknown outcome is worse than one more write. The epoch prevents a write after the job was lost.
func (t *Task) Write(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.engine.intervals.Call)
	defer cancel()
	err := do(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, seedbed.ErrStale):
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return &storeError{err}
}

// Effect carries out one effect for the job, unless the lease has ended. The output of its commands
// becomes the stage's output.
func (t *Task) Effect(ctx context.Context, do func(context.Context, seedbed.Call) error) error {
	if err := t.lease.check(ctx); err != nil {
		return err
	}
	return do(seedbed.WithOutput(ctx, t.Output), seedbed.Call{Job: t.Ref.ID, Epoch: t.Ref.Epoch, Stage: t.stage})
}

// failure returns the outcome of a failed job that is not undone.
func (t *Task) failure(cause string, err error) seedbed.JobResult {
	out := seedbed.JobResult{State: seedbed.JobFailed, Error: cause}
	if t.plan.Failed != nil {
		t.plan.Failed(&out, err)
	}
	return out
}

// Instance returns the job's instance.
func (t *Task) Instance(ctx context.Context) (seedbed.Instance, error) {
	inst, err := t.engine.store.Instance(ctx, t.Job.Instance)
	return inst, FromStore(err)
}

// Node returns the name of the node of the job's instance.
func (t *Task) Node() string { return cmp.Or(t.Job.Node, t.engine.cfg.Node) }

// Worker returns the worker that carries out the job's effects.
func (t *Task) Worker() effects.Worker { return t.engine.fleet.Of(t.Node()) }

// WorkerOf returns the worker of a node.
func (t *Task) WorkerOf(node string) effects.Worker { return t.engine.fleet.Of(node) }

// Nodes returns the nodes that are known at the moment.
func (t *Task) Nodes() []seedbed.Node { return t.engine.fleet.Nodes() }

// Listen returns a channel that is filled when the domain of the job's instance changes, until stop
// is called.
func (t *Task) Listen() (changed <-chan struct{}, stop func()) {
	return t.engine.domains.listen(t.Job.Instance)
}

// Progress returns the last reported percentage of the current stage.
func (t *Task) Progress() int { return t.reported }

// Intervals returns the engine's internal waits.
func (t *Task) Intervals() Intervals { return t.engine.intervals }

// Poll returns how often something is looked at of which no hint comes.
func (t *Task) Poll() time.Duration { return t.engine.cfg.Poll }

// Attempts returns how often one stage is started before the job fails.
func (t *Task) Attempts() int { return t.engine.cfg.Attempts }

// Submit requests another job.
func (t *Task) Submit(ctx context.Context, req seedbed.Request) (seedbed.Receipt, error) {
	return t.engine.cfg.Submit(ctx, req)
}

// Unseal opens the secrets of a fence agent.
func (t *Task) Unseal(sealed []byte) (map[string]string, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	return t.engine.cfg.Unseal(sealed)
}
