package provision

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"seedbed"
)

// stage is one step of a kind of job. Both functions may run again after they
// were cut off anywhere.
type stage struct {
	name string
	// state is the instance's state once the stage is done; empty leaves it.
	state seedbed.InstanceState
	run   func(context.Context) error
	// undo takes back what run may have done; nil when that leaves nothing behind.
	undo func(context.Context) error
	// guards is set where the stages before this one must not be undone unless
	// this one was: it says why they were not.
	guards string
	// final is set for a last stage from which there is no way back: it is not
	// cancelled, is tried again after any error, and failing leaves the job failed.
	final bool
	// limit is how long one attempt may take; nil takes the time that is configured for
	// the stage's name.
	limit func(context.Context) time.Duration
}

// plans are the kinds of job that there is a plan for: the stages in order.
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

// plannable are the kinds of job that there is a plan for: an engine claims no
// other, which a newer one of the same installation may run.
func plannable() []seedbed.JobKind {
	return slices.DeleteFunc(seedbed.JobKinds(), func(k seedbed.JobKind) bool { return plans[k] == nil })
}

// stages are the stages of a task's job in order; nil for an unknown kind.
func stages(t *task) []stage {
	if plan := plans[t.job.Kind]; plan != nil {
		return plan(t)
	}
	return nil
}

// planOf is the stages of a job in order, to be read; nil for an unknown kind.
func planOf(job *seedbed.Job) []stage { return stages(&task{job: job}) }

// storeError is a failure of the store that has no kind: a disk error, a broken
// connection. The job is left to its lease rather than judged by it.
type storeError struct{ err error }

func (e *storeError) Error() string { return "store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// fromStore marks err, which a store method returned, as such.
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

// retrying runs do until it succeeds, trying again after errors that retry takes,
// for at most limit. It returns the cause when ctx ends for another reason. A job that
// has given its slot away gets one first.
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
		if sleep(ctx, wait); ctx.Err() == nil {
			t.slot.reacquire(ctx)
		}
		if ctx.Err() != nil {
			return t.ended(ctx, limit, last, last)
		}
	}
}

// ended is the error of a stage whose context has ended: the cause, or for its
// own time limit what it was waiting for.
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
