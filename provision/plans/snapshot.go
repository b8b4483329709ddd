package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// restorePlan brings the volumes of an instance back to a snapshot, in place. The domain is off for that, and
// starts again if it ran. What the volumes had before is a snapshot of the job's own until the last stage.
// Up to then the job can be undone, and the instance has its former content.
func (t *task) restorePlan() engine.Plan {
	restore := engine.Stage{Name: "restore", Run: t.restoreSnapshot, Undo: strict(t.restoreFormer),
		Guards: "not undone, because the former content of the disks could not be brought back: they have what was restored, perhaps in part"}
	drop := engine.Stage{Name: "delete-snapshot", Run: t.dropFormer, Final: true}
	if t.was() == seedbed.InstanceStopped {
		return engine.Plan{Stages: []engine.Stage{restore, drop}, Restores: t.was()}
	}
	return engine.Plan{Restores: t.was(), Stages: []engine.Stage{
		{Name: "shutdown", Run: t.shutdownGuest, Limit: t.shutdownLimit, Undo: strict(t.reassure)},
		{Name: "stop", Run: t.switchOff, Undo: strict(t.switchOn), State: seedbed.InstanceStopped},
		restore,
		{Name: "start", Run: t.restartDomain, Undo: t.destroyDomain, State: seedbed.InstanceRunning,
			Guards: "not undone, because the domain could not be switched off: it runs from what was restored"},
		drop,
	}}
}

// errForeign is that a snapshot was there before the job.
var errForeign = errors.New("the snapshot is not of this job")

// eachSnapshot calls do for the job's snapshot of every volume, even if some calls fail. The event
// of each says what do has done, by the names of snapshot and volume; do may return errForeign.
func (t *task) eachSnapshot(ctx context.Context, done string, do func(context.Context, seedbed.Call, seedbed.SnapshotSpec) error) error {
	var input seedbed.SnapshotJob
	if err := t.input(&input); err != nil {
		return err
	}
	return t.eachNamed(ctx, input.Name, done, do)
}

// eachNamed is like eachSnapshot for the snapshot of that name.
func (t *task) eachNamed(ctx context.Context, name, done string, do func(context.Context, seedbed.Call, seedbed.SnapshotSpec) error) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	return t.eachOf(ctx, snapshotsOf(inst, name), done, do)
}

// snapshotsOf returns the snapshots of that name of all volumes of an instance.
func snapshotsOf(inst seedbed.Instance, name string) (all []seedbed.SnapshotSpec) {
	for _, v := range inst.Volumes {
		all = append(all, seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: inst.ID, Name: name})
	}
	return all
}

// eachOf is like eachSnapshot for these snapshots.
func (t *task) eachOf(
	ctx context.Context, specs []seedbed.SnapshotSpec, done string, do func(context.Context, seedbed.Call, seedbed.SnapshotSpec) error,
) error {
	var failed []error
	for i, s := range specs {
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error { return do(ctx, call, s) })
		if errors.Is(err, errForeign) {
			t.Event("info", (i+1)*100/len(specs), "snapshot %s of volume %s was there before, and stays", s.Name, s.Volume)
			continue
		}
		if err != nil {
			failed = append(failed, engine.Left(seedbed.OrphanSnapshot, s.Pool, s.Volume+"@"+s.Name,
				fmt.Errorf("volume %s of pool %s: %w", s.Volume, s.Pool, err)))
			continue
		}
		t.Event("info", (i+1)*100/len(specs), done, s.Name, s.Volume)
	}
	return errors.Join(failed...)
}

func (t *task) takeSnapshots(ctx context.Context) error {
	var input seedbed.SnapshotJob
	if err := t.input(&input); err != nil {
		return err
	}
	if err := t.leavesOut(ctx, "in the snapshot"); err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	return t.consistently(ctx, t.own(), input.Freeze, snapshotsOf(inst, input.Name))
}

func (t *task) take(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
	_, err := effects.CreateSnapshot.Do(ctx, t.Worker(), call, spec)
	return err
}

// undoSnapshots removes the snapshots that this job has taken. A snapshot of that name that existed
// before stays.
func (t *task) undoSnapshots(ctx context.Context) error {
	t.thawLeft(ctx, t.own())
	const left = "no snapshot %s that this job took is left of volume %s" // also if it took none
	return t.eachSnapshot(ctx, left, func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
		err := t.drop(ctx, call, spec)
		if errors.Is(err, seedbed.ErrConflict) {
			return errForeign
		}
		return err
	})
}

func (t *task) removeSnapshots(ctx context.Context) error {
	const removed = "snapshot %s of volume %s is removed"
	var input seedbed.SnapshotJob
	if err := t.input(&input); err != nil {
		return err
	}
	var failed []error
	for _, name := range append([]string{input.Name}, input.Also...) {
		failed = append(failed, t.eachNamed(ctx, name, removed, t.removeSnapshot))
	}
	return errors.Join(failed...)
}

func (t *task) removeSnapshot(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
	return t.remove(ctx, call, t.Job.Instance, spec, "")
}

// former names the snapshot of what the volumes have before the job restores another.
func (t *task) former() string { return "before-" + t.Ref.ID.Short() }

// restoreSnapshot restores the volumes, once the former content of all of them is kept. A second call keeps
// nothing else: the snapshot of the first one is the job's.
func (t *task) restoreSnapshot(ctx context.Context) error {
	const kept, restored = "snapshot %s of volume %s has the former content", "snapshot %s of volume %s is restored"
	off, err := t.isOff(ctx)
	if err != nil {
		return err
	}
	if !off {
		return seedbed.Errorf(seedbed.ErrConflict, "domain %s runs, and has the disks open: stop it first (seedbed vm stop %s)",
			t.domainName(), t.Job.Subject)
	}
	if err := t.leavesOut(ctx, "restored"); err != nil {
		return err
	}
	if err := t.eachNamed(ctx, t.former(), kept, t.take); err != nil {
		return err
	}
	return t.eachSnapshot(ctx, restored, func(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
		return effects.RestoreSnapshot.Do(ctx, t.Worker(), call, spec)
	})
}

// restoreFormer gives the volumes back what they had before the job, as far as the job has kept it: what it
// has not kept, it has not changed.
func (t *task) restoreFormer(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, v := range inst.Volumes {
		if err := t.volumeBack(ctx, inst.ID, v); err != nil {
			failed = append(failed, engine.Left(seedbed.OrphanSnapshot, v.Pool, v.Name+"@"+t.former(),
				fmt.Errorf("volume %s of pool %s: %w", v.Name, v.Pool, err)))
		}
	}
	return errors.Join(failed...)
}

func (t *task) volumeBack(ctx context.Context, id seedbed.InstanceID, v seedbed.Volume) error {
	all, err := effects.Snapshots.Ask(ctx, t.Worker(), effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: id})
	if err != nil {
		return err
	}
	spec := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: id, Name: t.former()}
	if slices.ContainsFunc(all, func(s seedbed.SnapshotInfo) bool { return s.Name == spec.Name && s.Job == t.Ref.ID }) {
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.RestoreSnapshot.Do(ctx, t.Worker(), call, spec)
		})
		if err != nil {
			return err
		}
		t.Event("info", t.Progress(), "volume %s has its former content again", v.Name)
	}
	return t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error { return t.drop(ctx, call, spec) })
}

// dropFormer removes what the job has kept.
func (t *task) dropFormer(ctx context.Context) error {
	return t.eachNamed(ctx, t.former(), "snapshot %s of volume %s, which had the former content, is removed", t.drop)
}

// drop removes a snapshot that this job has taken.
func (t *task) drop(ctx context.Context, call seedbed.Call, spec seedbed.SnapshotSpec) error {
	return t.remove(ctx, call, t.Job.Instance, spec, t.Ref.ID)
}

// remove removes a snapshot of a disk that the domain of an instance may have open. Unless of is empty, it is one that job has taken.
func (t *task) remove(
	ctx context.Context, call seedbed.Call, domain seedbed.InstanceID, spec seedbed.SnapshotSpec, of seedbed.JobID,
) error {
	return effects.RemoveSnapshot.Do(ctx, t.Worker(), call, effects.SnapshotRef{SnapshotSpec: spec, Of: of, Domain: domain})
}
