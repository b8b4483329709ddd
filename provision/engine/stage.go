package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"seedbed"
	"seedbed/internal/sleep"
)

// Plan is how a job is done. The zero value is that of a job that cannot be done.
type Plan struct {
	// Stages are done in order, and undone in reverse.
	Stages []Stage
	// Drops is set if the job's subject no longer exists, or is no longer managed, after the job has
	// succeeded.
	Drops bool
	// Restores is the instance's state after the job was undone, and Broken its state if the job has
	// failed and left something behind. Empty leaves the state unchanged.
	Restores, Broken seedbed.InstanceState
	// AfterUndo is called after the last undo; nil for nothing.
	AfterUndo func(context.Context)
	// Failed completes the outcome of a job that has failed and is not undone; nil for nothing. err
	// is why it has failed.
	Failed func(out *seedbed.JobResult, err error)
}

// Stage is one step of a plan. Both functions may run again after they were interrupted anywhere.
type Stage struct {
	Name string
	// State is the instance's state after the stage is done; empty leaves it unchanged.
	State seedbed.InstanceState
	Run   func(context.Context) error
	// Undo reverses what Run may have done; nil if Run leaves nothing behind.
	Undo func(context.Context) error
	// Guards is set if the stages before this one must not be undone unless this one was. It says
	// why they were not.
	Guards string
	// Final is set for a last stage that cannot be undone. It is not cancelled and is retried after
	// any error; if it fails, the job has failed.
	Final bool
	// Limit returns how long one attempt may take; nil uses the configured limit for the stage's
	// name.
	Limit func(context.Context) time.Duration
	// Made returns the resources that the stage is known to have made, without saying why they are
	// left; nil for none.
	Made func(context.Context) []seedbed.Orphan
}

// Planner makes the plans of jobs.
type Planner interface {
	// Kinds returns the kinds of job that have a plan. An engine claims no other kind; a newer
	// engine of the same installation may run it.
	Kinds() []seedbed.JobKind
	// Plan returns how the task's job is done. Its functions belong to the task.
	Plan(t *Task) Plan
}

// storeError is a failure of the store that has no kind: a disk error, a broken connection. The job
// is then left until its lease ends, and does not fail.
type storeError struct{ err error }

func (e *storeError) Error() string { return "store: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// FromStore wraps err, which a store method returned, in storeError if it has no kind.
func FromStore(err error) error {
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
func (t *Task) retrying(ctx context.Context, limit time.Duration, do func(context.Context) error, retry func(error) bool) error {
	if t.slot.reacquire(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	var last error
	for wait := t.engine.intervals.RetryMin; ; wait = min(2*wait, t.engine.intervals.RetryMax) {
		err := guarded(ctx, do)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrLost), errors.Is(err, seedbed.ErrStale):
			return fmt.Errorf("%w: %w", ErrLost, err)
		case ctx.Err() != nil:
			return t.ended(ctx, limit, err, last)
		case !retry(err):
			return err
		}
		if last == nil || last.Error() != err.Error() {
			t.Event("warn", t.reported, "%s; trying again", err)
		}
		last = err
		if sleep.For(ctx, wait); ctx.Err() == nil {
			t.slot.reacquire(ctx)
		}
		if ctx.Err() != nil {
			return t.ended(ctx, limit, last, last)
		}
	}
}

// ended returns the error of a stage whose context has ended: the cause or, for the stage's own
// time limit, what it was waiting for.
func (t *Task) ended(ctx context.Context, limit time.Duration, err, last error) error {
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

// Unavailable reports whether err is about something that did not answer, and that is worth another
// try.
func Unavailable(err error) bool { return errors.Is(err, seedbed.ErrUnavailable) }
