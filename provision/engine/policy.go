package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
)

// Why a job was given back before its end.
var (
	// errPostponed: the job can be claimed again after a while.
	errPostponed = errors.New("postponed")
	// errForeign: the job was made or begun by a newer seedbedd, which may run beside this one.
	errForeign = errors.New("this seedbedd is too old for the job")
)

// foreignWait is how long a job that this seedbedd cannot continue is left to others.
const foreignWait = 30 * time.Second

// shouldRetry reports whether the current stage, which failed, is to be started again.
func (t *Task) shouldRetry(err error) bool {
	p := t.Job.OnFailure
	s := t.planned(t.stage)
	return p.Policy == seedbed.FailRetry && t.stage != "" && !t.Job.Kind.Forward() && !s.Final &&
		!errors.Is(err, errCancelled) && max(1, t.Job.Attempts) < p.Attempts
}

// postpone gives the job back, for the next attempt at its stage.
func (t *Task) postpone(cause error) error {
	attempts := max(1, t.Job.Attempts)
	wait := t.Job.OnFailure.Wait(attempts)
	t.Event("warn", t.reported, "stage %s: %s; trying again in %s (%d of %d)", t.stage, cause, wait, attempts+1, t.Job.OnFailure.Attempts)
	t.tell()
	err := t.Write(t.lease.leased, func(ctx context.Context) error { return t.engine.store.Postpone(ctx, t.Ref, wait, true) })
	if err != nil {
		return err
	}
	return fmt.Errorf("%w for %s: %w", errPostponed, wait, cause)
}

// abandon gives back a job that only another seedbedd can continue. That does not count as an
// attempt, and adds nothing to the history.
func (t *Task) abandon(cause error) error {
	t.log.Warn("job left to a newer seedbedd", "stage", t.stage, "err", cause)
	t.tell()
	err := t.Write(t.lease.leased, func(ctx context.Context) error { return t.engine.store.Postpone(ctx, t.Ref, foreignWait, false) })
	if err != nil {
		return err
	}
	return fmt.Errorf("%w for %s: %w", errPostponed, foreignWait, cause)
}

// undoable refuses a journal with stages that this seedbedd does not know, because their effects
// would be left behind.
func (t *Task) undoable(journal []seedbed.Stage) error {
	for _, row := range journal {
		if _, ok := t.find(row.Name); !ok && (row.State == seedbed.StageIntent || row.State == seedbed.StageDone) {
			return fmt.Errorf("%w: it does not know how to undo stage %s of a %s job", errForeign, row.Name, t.Job.Kind)
		}
	}
	return nil
}

// kept returns the outcome of a job whose resources are to be kept as they were when it failed.
func (t *Task) kept(cause string) seedbed.JobResult {
	return seedbed.JobResult{State: seedbed.JobFailed, Error: cause, Keep: true, InstanceState: t.plan.Broken}
}
