package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/provision/engine"
)

// clonePlan makes an instance whose disks are copies of those of another one, which stays as it is.
func (t *task) clonePlan() engine.Plan {
	stages := t.definedStages()
	stages[0] = engine.Stage{Name: "copy", Run: t.copyDisks, Undo: t.dropCopies, Limit: t.copyLimit("copy"), Made: t.madeVolumes}
	stages[1].Run = t.defineRestored
	if t.cloning().Generalise {
		stages = slices.Insert(stages, 1, engine.Stage{Name: "generalise", Run: t.generaliseClone, Undo: t.closeClone})
	}
	if t.cloning().Together {
		stages = slices.Insert(stages, 0, engine.Stage{Name: "snapshot", Run: t.snapshotCloned, Undo: t.dropCloned})
	}
	return engine.Plan{Stages: stages, Broken: seedbed.InstanceFailed}
}

// cloning returns the job's input; the zero value if it cannot be read, which the first stage reports.
func (t *task) cloning() (spec seedbed.CloneJob) {
	_ = t.input(&spec)
	return spec
}

// clone returns the job's input and its instance.
func (t *task) clone(ctx context.Context) (spec seedbed.CloneJob, inst seedbed.Instance, err error) {
	if err := t.input(&spec); err != nil {
		return spec, inst, err
	}
	if inst, err = t.Instance(ctx); err == nil && len(spec.Disks) != len(inst.Volumes) {
		err = fmt.Errorf("the instance has %d disks, and %d are to be copied", len(inst.Volumes), len(spec.Disks))
	}
	return spec, inst, err
}

// snapshotCloned takes snapshots of all disks of the other instance, whose guest runs, at one moment. It is a stage of its own: once a disk
// is copied, no other may be of another moment.
func (t *task) snapshotCloned(ctx context.Context) error {
	spec, inst, err := t.clone(ctx)
	if err != nil {
		return err
	}
	if spec.Generalise {
		if err := t.hasTools(ctx); err != nil {
			return err
		}
	}
	of, err := t.clonedGuest(ctx, spec)
	if err != nil {
		return err
	}
	return t.consistently(ctx, of, spec.Freeze, t.snapshotsOfCloned(spec, inst))
}

// clonedGuest returns the guest of the other instance, which may have got another node since the job was accepted.
func (t *task) clonedGuest(ctx context.Context, spec seedbed.CloneJob) (guest, error) {
	of, err := t.store.Instance(ctx, spec.Source)
	if err != nil {
		return guest{}, fmt.Errorf("instance %s: %w", spec.From, engine.FromStore(err))
	}
	return guest{of.ID, of.Node, of.Name}, nil
}

// snapshotsOfCloned returns the snapshots that the disks of the other instance are copied from.
func (t *task) snapshotsOfCloned(spec seedbed.CloneJob, inst seedbed.Instance) (all []seedbed.SnapshotSpec) {
	for i, from := range spec.Disks {
		all = append(all,
			seedbed.SnapshotSpec{Pool: inst.Volumes[i].Pool, Volume: from.Volume, Instance: from.Owner, Name: t.copySnapshot()})
	}
	return all
}

// dropCloned thaws the guest of the other instance and removes the snapshots that were taken of its disks.
func (t *task) dropCloned(ctx context.Context) error {
	spec, inst, err := t.clone(ctx)
	if err != nil {
		return err
	}
	if of, err := t.clonedGuest(ctx, spec); err == nil {
		t.thawLeft(ctx, of)
	}
	return t.endClone(ctx, spec, inst)
}

// copyDisks copies one disk after the other.
func (t *task) copyDisks(ctx context.Context) error {
	spec, inst, err := t.clone(ctx)
	if err != nil {
		return err
	}
	if spec.Generalise {
		if err := t.hasTools(ctx); err != nil {
			return err
		}
	}
	for i, v := range inst.Volumes {
		from := spec.Disks[i]
		if spec.Together {
			from.Snapshot = t.copySnapshot()
		}
		if err := t.copyVolume(ctx, seedbed.ProjectVolume{Project: inst.Project, Name: v.Name, Pool: v.Pool, Volume: v.Name, Owner: inst.ID,
			Size: v.Size}, from); err != nil {
			return err
		}
	}
	return t.endClone(ctx, spec, inst)
}

// endClone removes the snapshots that were taken to copy the disks.
func (t *task) endClone(ctx context.Context, spec seedbed.CloneJob, inst seedbed.Instance) error {
	var failed []error
	for i, from := range spec.Disks {
		if from.Snapshot == "" {
			failed = append(failed, t.endCopying(ctx, inst.Volumes[i].Pool, from))
		}
	}
	return errors.Join(failed...)
}

// dropCopies removes the copies, and the snapshots that were taken for them.
func (t *task) dropCopies(ctx context.Context) error {
	spec, inst, err := t.clone(ctx)
	if err != nil {
		return err
	}
	inst.System.DiskCopy = true // what is being copied is stopped
	if err := t.dropVolumes(ctx, inst); err != nil {
		return err
	}
	return t.endClone(ctx, spec, inst)
}

// generaliseClone removes from the first disk what tells machines apart.
func (t *task) generaliseClone(ctx context.Context) error {
	_, inst, err := t.clone(ctx)
	if err != nil {
		return err
	}
	v := inst.Volumes[0]
	return t.generaliseVolume(ctx, generalising{pool: v.Pool, volume: v.Name, owner: inst.ID, name: inst.FullName().String(), of: v.Name})
}

func (t *task) closeClone(ctx context.Context) error { return t.endGeneralising(ctx, t.Job.Instance) }
