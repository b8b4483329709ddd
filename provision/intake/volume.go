package intake

import (
	"context"
	"errors"

	"seedbed"
)

// Flatten accepts a request to make the volumes of the instance name independent of their
// image. Errors, as for all jobs on the volumes of an instance: seedbed.ErrNotFound, ErrInUse with
// the holder while a job works on it, ErrConflict for an instance that is neither running nor
// stopped.
func (in *Intake) Flatten(ctx context.Context, name seedbed.InstanceName, o seedbed.JobOptions) (seedbed.Receipt, error) {
	return in.onVolumes(ctx, seedbed.JobFlatten, name, o)
}

// onVolumes accepts a request without input for a job on the volumes of an instance.
func (in *Intake) onVolumes(ctx context.Context, kind seedbed.JobKind, name seedbed.InstanceName,
	o seedbed.JobOptions) (seedbed.Receipt, error) {
	if err := name.Check(); err != nil {
		return seedbed.Receipt{}, err
	}
	inst, err := in.store.InstanceByName(ctx, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: jobOn(inst, kind, o)})
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
