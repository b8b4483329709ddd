package provision

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"seedbed"
)

// stage is one step of a kind of job. Both functions may run again after they
// were cut off anywhere.
type stage struct {
	name string
	// state is the instance's state once the stage is done; empty leaves it.
	state seedbed.InstanceState
	run   func(*task, context.Context) error
	// undo takes back what run may have done; nil when that leaves nothing behind.
	undo func(*task, context.Context) error
	// guards is set where the stages before this one must not be undone unless
	// this one was: it says why they were not.
	guards string
	// asks is set where the stage waits for a guest that was asked to shut down: its
	// time is the guest's, and what it takes to ask comes on top.
	asks bool
	// final is set for a last stage from which there is no way back: it is not
	// cancelled, is tried again after any error, and failing leaves the job failed.
	final bool
	// scripted is set where a script runs, and its time is that of its steps until then.
	scripted bool
	// flattens is set where the instance's volumes are clones of no image once the stage is done.
	flattens bool
	// copies is set where the instance's system may have disks copied, which takes its time.
	copies bool
}

// plannable are the kinds of job that there is a plan for: an engine claims no
// other, which a newer one of the same installation may run.
func plannable() (kinds []seedbed.JobKind) {
	for _, k := range seedbed.JobKinds() {
		if planOf(&seedbed.Job{Kind: k}) != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// planOf is the stages of a job in order; nil for an unknown kind.
func planOf(job *seedbed.Job) []stage {
	switch job.Kind {
	case seedbed.JobCreate:
		switch how := composedBy(job); {
		case how.Scripted && how.Undefined:
			return undefinedScriptedPlan()
		case how.Scripted:
			return scriptedPlan()
		case how.Undefined:
			return undefinedPlan()
		}
		return createPlan()
	case seedbed.JobRemove:
		return removePlan()
	case seedbed.JobImport:
		return importPlan()
	case seedbed.JobStart:
		return startPlan()
	case seedbed.JobStop:
		return stopPlan()
	case seedbed.JobReboot:
		return rebootPlan()
	case seedbed.JobRebuild:
		if rebuildBy(job).Scripted {
			return scriptedRebuildPlan()
		}
		return rebuildPlan()
	case seedbed.JobResize:
		return resizePlan()
	case seedbed.JobFlatten:
		return flattenPlan()
	case seedbed.JobSnapshot:
		return snapshotPlan()
	case seedbed.JobSnapshotRemove:
		return snapshotRemovePlan()
	case seedbed.JobImageRemove:
		return imageRemovePlan()
	case seedbed.JobOVA:
		return ovaPlan()
	case seedbed.JobOVARemove:
		return ovaRemovePlan()
	case seedbed.JobAdopt:
		return adoptPlan()
	case seedbed.JobForget:
		return forgetPlan()
	}
	return nil
}

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
func guarded(t *task, ctx context.Context, do func(*task, context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return do(t, ctx)
}

// errTimeout is the cause of a stage's context that ended by its own time limit.
var errTimeout = errors.New("stage timeout")

// perform runs do until it succeeds, trying again after errors that retry takes,
// for at most limit. It returns the cause when ctx ends for another reason. A job that
// has given its seat away gets one first.
func (t *task) perform(ctx context.Context, limit time.Duration, do func(*task, context.Context) error, retry func(error) bool) error {
	if t.seat.back(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	var last error
	for wait := t.engine.pace.retryMin; ; wait = min(2*wait, t.engine.pace.retryMax) {
		err := guarded(t, ctx, do)
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
			t.seat.back(ctx)
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
