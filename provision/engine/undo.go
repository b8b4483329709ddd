package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"seedbed"
)

// backward undoes every stage that has an intent, last first. It continues after errors, except
// those of a stage that guards the stages before it. It then ends the job: rolled back if nothing
// is left, or incomplete with what is left in the journal.
func (t *Task) backward(ctx context.Context) error {
	journal, err := t.engine.store.Stages(ctx, t.Ref.ID)
	if err != nil {
		return FromStore(err)
	}
	if err := t.undoable(journal); err != nil {
		return t.abandon(err)
	}
	var left []string
	kept := "" // why the remaining stages are left unchanged
	for _, row := range slices.Backward(journal) {
		if row.State == seedbed.StageOrphans { // by the previous holder of the job
			left = append(left, row.Name+": "+row.Error)
			kept = cmp.Or(kept, t.planned(row.Name).Guards)
		}
		if row.State != seedbed.StageIntent && row.State != seedbed.StageDone {
			continue
		}
		t.stage, t.reported = row.Name, 0
		problem, orphans := kept, []seedbed.Orphan(nil)
		if kept != "" {
			t.Event("warn", 0, "%s", kept)
			orphans = t.planned(row.Name).kept(ctx, kept)
		} else if problem, orphans, err = t.revert(ctx, row.Name); err != nil {
			return err
		}
		if problem != "" {
			left = append(left, row.Name+": "+problem)
			kept = cmp.Or(kept, t.planned(row.Name).Guards)
		}
		if err := t.Write(ctx, func(ctx context.Context) error {
			return t.engine.store.Undone(ctx, t.Ref, row.Name, problem, orphans...)
		}); err != nil {
			return err
		}
	}
	if t.plan.AfterUndo != nil {
		t.plan.AfterUndo(ctx)
	}
	cause := t.Job.Error
	if cause == "" {
		cause = errCancelled.Error()
	}
	if len(left) == 0 {
		return t.finish(ctx, seedbed.JobResult{State: seedbed.JobRolledBack, Error: cause, InstanceState: t.plan.Restores,
			Drop: t.Job.Kind.Makes()})
	}
	cause += "; left behind: " + strings.Join(left, "; ")
	return t.finish(ctx, seedbed.JobResult{State: seedbed.JobIncomplete, Error: cause, InstanceState: t.plan.Broken})
}

// find returns the stage of that name in the job's plan.
func (t *Task) find(name string) (s Stage, ok bool) {
	i := slices.IndexFunc(t.plan.Stages, func(s Stage) bool { return s.Name == name })
	if i < 0 {
		return Stage{}, false
	}
	return t.plan.Stages[i], true
}

// planned returns the stage of that name in the job's plan; the zero value if there is none.
func (t *Task) planned(name string) Stage {
	s, _ := t.find(name)
	return s
}

// revert undoes one stage. problem is what prevents that, and orphans are what is left, as far as
// is known. err is why the job is left for a later attempt.
func (t *Task) revert(ctx context.Context, name string) (problem string, orphans []seedbed.Orphan, err error) {
	s := t.planned(name)
	if s.Undo == nil {
		return "", nil, nil
	}
	err = t.retrying(ctx, min(t.engine.intervals.Undo, t.limit(ctx, s)), s.Undo, func(err error) bool {
		return Unavailable(err) || errors.Is(err, seedbed.ErrInUse)
	})
	t.flush(name)
	var broken *storeError
	switch {
	case err == nil, errors.Is(err, seedbed.ErrNotFound):
		t.Event("info", 100, "undone")
		return "", nil, nil
	case errors.Is(err, ErrLost), errors.As(err, &broken):
		return "", nil, err
	case ctx.Err() != nil:
		return "", nil, context.Cause(ctx)
	case errors.Is(err, seedbed.ErrConflict) && s.Guards == "": // a foreign resource: nothing of ours is left
		t.Event("warn", 100, "left untouched: %s", err)
		return "", nil, nil
	}
	var crash *panicError
	if errors.As(err, &crash) {
		t.Event("error", 0, "undo: %s\n%s", crash, seedbed.ClipTo(string(crash.stack), 3<<10))
	} else {
		t.Event("error", 0, "undo: %s", err)
	}
	return err.Error(), orphansOf(err), nil
}
