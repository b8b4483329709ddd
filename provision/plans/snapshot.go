package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// snapshotPlan takes a snapshot of every volume of an instance, or of none.
func (t *task) snapshotPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{Name: "snapshot", Run: t.takeSnapshots, Undo: t.undoSnapshots}}}
}

// snapshotRemovePlan removes a snapshot from every volume that has it.
func (t *task) snapshotRemovePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{Name: "delete-snapshot", Run: t.removeSnapshots}}}
}

// errForeign is that a snapshot was there before the job.
var errForeign = errors.New("the snapshot is not of this job")

// eachSnapshot calls do for the job's snapshot of every volume, even if some calls fail. The event
// of each says what do has done, by the names of snapshot and volume; do may return errForeign.
func (t *task) eachSnapshot(ctx context.Context, done string, do func(context.Context, seedbed.Call, seedbed.SnapshotSpec) error) error {
	var input seedbed.SnapshotJob
	if err := json.Unmarshal(t.Job.Spec, &input); err != nil {
		return fmt.Errorf("read the job's input: %w", err)
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for i, v := range inst.Volumes {
		spec := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: inst.ID, Name: input.Name}
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error { return do(ctx, call, spec) })
		if errors.Is(err, errForeign) {
			t.Event("info", (i+1)*100/len(inst.Volumes), "snapshot %s of volume %s was there before, and stays", input.Name, v.Name)
			continue
		}
		if err != nil {
			failed = append(failed, engine.Left(seedbed.OrphanSnapshot, v.Pool, v.Name+"@"+input.Name,
				fmt.Errorf("volume %s of pool %s: %w", v.Name, v.Pool, err)))
			continue
		}
		t.Event("info", (i+1)*100/len(inst.Volumes), done, input.Name, v.Name)
	}
	return errors.Join(failed...)
}

func (t *task) takeSnapshots(ctx context.Context) error {
	const taken = "snapshot %s of volume %s is taken"
	if err := t.leavesOut(ctx, "in the snapshot"); err != nil {
		return err
	}
	return t.eachSnapshot(ctx, taken, func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
		_, err := effects.CreateSnapshot.Do(ctx, t.Worker(), call, spec)
		return err
	})
}

// undoSnapshots removes the snapshots that this job has taken. A snapshot of that name that existed
// before stays.
func (t *task) undoSnapshots(ctx context.Context) error {
	const left = "no snapshot %s that this job took is left of volume %s" // also if it took none
	return t.eachSnapshot(ctx, left, func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
		err := effects.RemoveSnapshot.Do(ctx, t.Worker(), call, effects.SnapshotRef{SnapshotSpec: spec, Of: t.Ref.ID})
		if errors.Is(err, seedbed.ErrConflict) {
			return errForeign
		}
		return err
	})
}

func (t *task) removeSnapshots(ctx context.Context) error {
	const removed = "snapshot %s of volume %s is removed"
	return t.eachSnapshot(ctx, removed, func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
		return effects.RemoveSnapshot.Do(ctx, t.Worker(), call, effects.SnapshotRef{SnapshotSpec: spec, Of: ""})
	})
}
