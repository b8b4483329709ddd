package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"seedbed"
)

// Flatten accepts a request to make the volumes of the instance name independent of their
// image. Errors, as for all jobs on the volumes of an instance: seedbed.ErrNotFound, ErrInUse with
// the holder while a job works on it, ErrConflict for an instance that is neither running nor
// stopped.
func (in *Intake) Flatten(ctx context.Context, name seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.onVolumes(ctx, seedbed.JobFlatten, name, nil, o)
}

// Snapshot accepts a request to take the snapshot called snapshot of the volumes of the instance
// name. Errors: ErrInvalid for a name that cannot be used, and otherwise those of Flatten.
func (in *Intake) Snapshot(ctx context.Context, name seedbed.InstanceName, snapshot string, o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.onVolumes(ctx, seedbed.JobSnapshot, name, &seedbed.SnapshotJob{Name: snapshot}, o)
}

// snapshotable refuses a snapshot that its job could not take: one of a file that a guest has open,
// or of a name that a volume has already. What the node does not report leaves it to the job.
func (in *Intake) snapshotable(ctx context.Context, inst seedbed.Instance, snapshot string) error {
	for _, v := range inst.Volumes {
		info, known, err := in.placer.Room(ctx, inst.Node, v.Pool)
		if err != nil {
			return err
		}
		if known && info.Type == seedbed.PoolDir && inst.State == seedbed.InstanceRunning {
			return seedbed.Errorf(seedbed.ErrConflict,
				"instance %q is running, and a snapshot of a volume in the directory pool %q can only be taken while it is off (seedbed vm stop %s)",
				inst.Name, v.Pool, inst.Name)
		}
		if in.serving.Snapshots == nil {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, strangerTime)
		all, err := in.serving.Snapshots(asked, inst.Node, v.Pool, v.Name, inst.ID)
		cancel()
		if err == nil && slices.ContainsFunc(all, func(s seedbed.SnapshotInfo) bool { return s.Name == snapshot }) {
			return seedbed.Errorf(seedbed.ErrExists, "instance %q has a snapshot %q already: take another name, or remove it "+
				"(seedbed vm snapshot remove %s %s)", inst.Name, snapshot, inst.Name, snapshot)
		}
	}
	return nil
}

// RemoveSnapshot accepts a request to remove a snapshot. The errors are those of Snapshot.
func (in *Intake) RemoveSnapshot(ctx context.Context, name seedbed.InstanceName, snapshot string,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.onVolumes(ctx, seedbed.JobSnapshotRemove, name, &seedbed.SnapshotJob{Name: snapshot}, o)
}

func (in *Intake) onVolumes(ctx context.Context, kind seedbed.JobKind, name seedbed.InstanceName, input *seedbed.SnapshotJob,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	if err := name.Check(); err != nil {
		return seedbed.Receipt{}, err
	}
	job := seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, State: seedbed.JobQueued, JobOptions: o}
	if input != nil {
		if err := seedbed.CheckName("snapshot", input.Name); err != nil {
			return seedbed.Receipt{}, err
		}
		raw, err := json.Marshal(input)
		if err != nil {
			return seedbed.Receipt{}, fmt.Errorf("encode %s of %s: %w", kind, name.Name, err)
		}
		job.Spec = raw
	}
	inst, err := in.store.InstanceByName(ctx, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if kind == seedbed.JobSnapshot {
		if err := in.snapshotable(ctx, inst, input.Name); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	job.Project, job.Subject, job.Instance, job.Node = inst.Project, inst.Name, inst.ID, inst.Node
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job})
}

// RemoveImage accepts a request to remove the image called name, even if its import could not be
// undone. Errors: seedbed.ErrNotFound, ErrInUse while profiles name it, volumes are clones of it or
// a job works on it.
func (in *Intake) RemoveImage(ctx context.Context, name string, o seedbed.JobOptions) (seedbed.Receipt, error) {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return seedbed.Receipt{}, err
	}
	node, err := in.whereImage(ctx, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobImageRemove, State: seedbed.JobQueued,
			Project: seedbed.ProjectOf(name), Subject: name, Node: node, JobOptions: o},
	})
}

// whereImage returns the node that removes the image called name; empty if the image does not
// exist.
func (in *Intake) whereImage(ctx context.Context, name string) (string, error) {
	image, err := in.store.Image(ctx, name)
	if errors.Is(err, seedbed.ErrNotFound) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return in.placer.Keeper(ctx, image)
}
