package provision

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"seedbed"
	"seedbed/internal/run"
)

// stage is one step of a kind of job. Both functions may run again after they were interrupted
// anywhere.
type stage struct {
	name string
	// state is the instance's state after the stage is done; empty leaves it unchanged.
	state seedbed.InstanceState
	run   func(context.Context) error
	// undo reverses what run may have done; nil if run leaves nothing behind.
	undo func(context.Context) error
	// guards is set if the stages before this one must not be undone unless this one was. It says
	// why they were not.
	guards string
	// final is set for a last stage that cannot be undone. It is not cancelled and is retried after
	// any error; if it fails, the job has failed.
	final bool
	// limit returns how long one attempt may take; nil uses the configured limit for the stage's
	// name.
	limit func(context.Context) time.Duration
}

// plans maps the kinds of job to functions that return their stages in order.
var plans = map[seedbed.JobKind]func(*task) []stage{
	seedbed.JobCreate:         (*task).createPlan,
	seedbed.JobRemove:         (*task).removePlan,
	seedbed.JobImport:         (*task).importPlan,
	seedbed.JobStart:          (*task).startPlan,
	seedbed.JobStop:           (*task).stopPlan,
	seedbed.JobReboot:         (*task).rebootPlan,
	seedbed.JobRebuild:        (*task).rebuildPlan,
	seedbed.JobResize:         (*task).resizePlan,
	seedbed.JobFlatten:        (*task).flattenPlan,
	seedbed.JobSnapshot:       (*task).snapshotPlan,
	seedbed.JobSnapshotRemove: (*task).snapshotRemovePlan,
	seedbed.JobImageRemove:    (*task).imageRemovePlan,
	seedbed.JobOVA:            (*task).ovaPlan,
	seedbed.JobOVARemove:      (*task).ovaRemovePlan,
	seedbed.JobAdopt:          (*task).adoptPlan,
	seedbed.JobForget:         (*task).forgetPlan,
}

// plannable returns the kinds of job that have a plan. An engine claims no other kind; a newer
// engine of the same installation may run it.
func plannable() []seedbed.JobKind {
	return slices.DeleteFunc(seedbed.JobKinds(), func(k seedbed.JobKind) bool { return plans[k] == nil })
}

// stages returns the stages of a task's job in order; nil for an unknown kind.
func stages(t *task) []stage {
	if plan := plans[t.job.Kind]; plan != nil {
		return plan(t)
	}
	return nil
}

// planOf returns the stages of a job in order, for reading only; nil for an unknown kind.
func planOf(job *seedbed.Job) []stage { return stages(&task{job: job}) }

// storeError is a failure of the store that has no kind: a disk error, a broken connection. The job
// is then left until its lease ends, and does not fail.
type storeError struct{ err error }

func (e *storeError) Error() string { return "store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// fromStore wraps err, which a store method returned, in storeError if it has no kind.
func fromStore(err error) error {
	if err == nil || seedbed.KindName(err) != "internal" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &storeError{err}
}

// panicError is a panic of a stage, with its stack.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// guarded calls do and turns a panic into an error.
func guarded(ctx context.Context, do func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return do(ctx)
}

// errTimeout is the cause of a stage's context that ended by its own time limit.
var errTimeout = errors.New("stage timeout")

// retrying runs do until it succeeds, retrying after errors that retry accepts, for at most limit.
// It returns the cause if ctx ends for another reason. A job that has yielded its slot reacquires
// one first.
func (t *task) retrying(ctx context.Context, limit time.Duration, do func(context.Context) error, retry func(error) bool) error {
	if t.slot.reacquire(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	var last error
	for wait := t.engine.intervals.retryMin; ; wait = min(2*wait, t.engine.intervals.retryMax) {
		err := guarded(ctx, do)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errLost), errors.Is(err, seedbed.ErrStale):
			return fmt.Errorf("%w: %w", errLost, err)
		case ctx.Err() != nil:
			return t.ended(ctx, limit, err, last)
		case !retry(err):
			return err
		}
		if last == nil || last.Error() != err.Error() {
			t.event("warn", t.progress, "%s; trying again", err)
		}
		last = err
		if run.Sleep(ctx, wait); ctx.Err() == nil {
			t.slot.reacquire(ctx)
		}
		if ctx.Err() != nil {
			return t.ended(ctx, limit, last, last)
		}
	}
}

// ended returns the error of a stage whose context has ended: the cause or, for the stage's own
// time limit, what it was waiting for.
func (t *task) ended(ctx context.Context, limit time.Duration, err, last error) error {
	if cause := context.Cause(ctx); !errors.Is(cause, errTimeout) {
		return cause
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTimeout) {
		err = last
	}
	if err == nil {
		return fmt.Errorf("no end after %s", limit)
	}
	return fmt.Errorf("%w (gave up after %s)", err, limit)
}

func unavailable(err error) bool { return errors.Is(err, seedbed.ErrUnavailable) }

// stagesOf returns the names of a job's stages.
func stagesOf(job *seedbed.Job) (names []string) {
	for _, s := range planOf(job) {
		names = append(names, s.name)
	}
	return names
}
