package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
)

// AddVolume accepts a request to make a volume that no instance has. Errors: seedbed.ErrInvalid for a wrong name, size, pool or image,
// ErrExists for a name in use, ErrForbidden if the quota of the project does not allow it.
func (in *Intake) AddVolume(ctx context.Context, req seedbed.VolumeRequest, o seedbed.JobOptions) (seedbed.Receipt, error) {
	req.Project = cmp.Or(req.Project, seedbed.DefaultProject)
	if err := seedbed.CheckName("volume", req.Name); err != nil {
		return seedbed.Receipt{}, err
	}
	if seedbed.IsTenant(ctx) && req.Node != "" {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrForbidden, "a node is chosen from the default project only: expected none")
	}
	if req.Size == 0 && req.Image == "" {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "volume %q: the size is missing: expected one, such as 10GiB, or an image",
			req.Name)
	}
	if req.Size != 0 {
		if err := seedbed.CheckDisk("size", req.Size); err != nil {
			return seedbed.Receipt{}, err
		}
	}
	if err := req.IOLimits.Check(); err != nil {
		return seedbed.Receipt{}, err
	}
	v := seedbed.ProjectVolume{ID: seedbed.NewVolumeID(), Project: req.Project, Name: req.Name, Size: req.Size, IOLimits: req.IOLimits}
	size := req.Size
	if req.Image != "" {
		image, err := in.imageOf(ctx, req)
		if err != nil {
			return seedbed.Receipt{}, err
		}
		req.Pool = cmp.Or(req.Pool, image.Pool)
		v.Image, size = image.Name, cmp.Or(req.Size, image.Size)
		if image.Node != "" && req.Node == "" && image.Pool == req.Pool { // unless the pool is shared, only that node has the image
			if req.Node, err = in.placer.Keeper(ctx, image); err != nil {
				return seedbed.Receipt{}, unheld(ctx, req.Pool, err)
			}
		}
	}
	if err := seedbed.CheckName("pool", req.Pool); err != nil {
		return seedbed.Receipt{}, err
	}
	v.Pool = req.Pool
	node, err := in.placer.Holder(ctx, req.Pool, req.Node)
	if err != nil {
		return seedbed.Receipt{}, unheld(ctx, req.Pool, err)
	}
	warnings, err := in.room(ctx, node, map[string]seedbed.Bytes{req.Pool: size}, false)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Volume: &v, Warnings: warnings,
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobVolumeAdd, State: seedbed.JobQueued, Project: req.Project, Subject: req.Name,
			Node: node, Pool: req.Pool, JobOptions: o}})
}

// imageOf returns the image that a new volume is to be a clone of.
func (in *Intake) imageOf(ctx context.Context, req seedbed.VolumeRequest) (image seedbed.Image, err error) {
	qualified, err := in.store.Resolve(ctx, seedbed.PublishedImage, req.Project, req.Image)
	if err == nil {
		image, err = in.store.Image(ctx, qualified)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "image %q does not exist: expected one of seedbed image list", seedbed.Clip(req.Image))
	}
	return image, err
}

// ownVolume returns the volume of a project with that name. It refuses a disk that was made with an instance.
func (in *Intake) ownVolume(ctx context.Context, project, name string) (seedbed.ProjectVolume, error) {
	if err := seedbed.CheckName("volume", name); err != nil {
		return seedbed.ProjectVolume{}, err
	}
	v, err := in.store.ProjectVolume(ctx, project, name)
	if err == nil {
		err = v.CheckOwn()
	}
	return v, err
}

// RemoveVolume accepts a request to remove a volume. Errors: seedbed.ErrNotFound, ErrInUse while an instance has it or a job works on
// it, ErrConflict for a disk that was made with an instance.
func (in *Intake) RemoveVolume(ctx context.Context, project, name string, o seedbed.JobOptions) (seedbed.Receipt, error) {
	v, err := in.ownVolume(ctx, project, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job, err := in.volumeJob(ctx, v, seedbed.JobVolumeRemove, o)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job})
}

// volumeJob returns a job on a volume that no instance has.
func (in *Intake) volumeJob(ctx context.Context, v seedbed.ProjectVolume, kind seedbed.JobKind, o seedbed.JobOptions) (seedbed.Job, error) {
	node := v.Node
	if node == "" {
		var err error
		if node, err = in.placer.Holder(ctx, v.Pool, ""); err != nil {
			return seedbed.Job{}, unheld(ctx, v.Pool, err)
		}
	}
	return seedbed.Job{ID: seedbed.NewJobID(), Kind: kind, State: seedbed.JobQueued, Project: v.Project, Subject: v.Name, Node: node,
		Pool: v.Pool, JobOptions: o}, nil
}

// ResizeVolume accepts a request to make a volume larger, whether an instance has it or not. Errors: seedbed.ErrNotFound, ErrInvalid for a
// size that is out of range or not larger, ErrInUse while a job works on the volume or on its instance, ErrConflict for a disk that was
// made with an instance, and for an instance that is neither running nor stopped, ErrForbidden if a quota does not allow it.
func (in *Intake) ResizeVolume(
	ctx context.Context, project, name string, req seedbed.VolumeResize, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	v, err := in.ownVolume(ctx, project, name)
	if err == nil {
		err = v.CheckLarger(req.Size)
	}
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job, err := in.onVolume(ctx, v, seedbed.JobVolumeResize, o)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	warnings, err := in.room(ctx, job.Node, map[string]seedbed.Bytes{v.Pool: req.Size - v.Size}, false)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if job.Spec, err = json.Marshal(seedbed.VolumeJob{ID: v.ID, Name: v.Name, Size: req.Size}); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the resize of %s: %w", v.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job, Warnings: warnings})
}

// SetVolume accepts a request to change how fast a volume may be, whether an instance has it or not. Errors: seedbed.ErrNotFound,
// ErrInvalid for limits out of range or that exclude each other, and if nothing would change, and otherwise those of ResizeVolume.
func (in *Intake) SetVolume(
	ctx context.Context, project, name string, change seedbed.VolumeLimits, o seedbed.JobOptions,
) (seedbed.Receipt, error) {
	v, err := in.ownVolume(ctx, project, name)
	if err == nil {
		_, err = change.Of(v.IOLimits)
	}
	if err != nil {
		return seedbed.Receipt{}, err
	}
	job, err := in.onVolume(ctx, v, seedbed.JobVolumeSet, o)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if job.Spec, err = json.Marshal(seedbed.VolumeJob{ID: v.ID, Name: v.Name, Set: &change}); err != nil {
		return seedbed.Receipt{}, fmt.Errorf("encode the limits of %s: %w", v.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job})
}

// onVolume returns a job on a volume: one of the instance that has it, if any does.
func (in *Intake) onVolume(ctx context.Context, v seedbed.ProjectVolume, kind seedbed.JobKind, o seedbed.JobOptions) (seedbed.Job, error) {
	if v.Holder == "" {
		return in.volumeJob(ctx, v, kind, o)
	}
	inst, err := in.instanceNamed(ctx, v.Project, v.Holder)
	if err != nil {
		return seedbed.Job{}, err
	}
	return jobOn(inst, kind, o), nil
}

// Attach accepts a request to attach a volume to an instance of its project. Errors: seedbed.ErrNotFound, ErrInUse while an instance
// has it or a job works on either, ErrConflict for a volume that the instance's node does not reach, and for an instance that is
// neither running nor stopped.
func (in *Intake) Attach(ctx context.Context, project, name string, to seedbed.Attachment, o seedbed.JobOptions) (seedbed.Receipt, error) {
	v, err := in.ownVolume(ctx, project, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if to.Bus, err = seedbed.CheckBus(to.Bus); err != nil {
		return seedbed.Receipt{}, err
	}
	if to.Instance == "" {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrInvalid, "volume %q: the instance to attach it to is missing", v.Name)
	}
	inst, err := in.instanceNamed(ctx, project, to.Instance)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if node, err := in.hasPool(ctx, inst.Node, v.Pool); err != nil {
		return seedbed.Receipt{}, err
	} else if !node {
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "the node of instance %q does not have the pool %q of volume %q",
			inst.Name, v.Pool, v.Name)
	}
	keep := to.Keep == nil || *to.Keep
	return in.attachment(ctx, inst, seedbed.JobAttach, seedbed.VolumeJob{ID: v.ID, Name: v.Name, Bus: to.Bus, Keep: keep}, o)
}

// hasPool reports whether a node has a pool. One that has not reported yet may have it.
func (in *Intake) hasPool(ctx context.Context, node, pool string) (bool, error) {
	_, known, err := in.placer.Room(ctx, node, pool)
	if err != nil || known {
		return known, err
	}
	reported, err := in.placer.Knows(ctx, pool)
	return !reported, err
}

// Detach accepts a request to take a volume from the instance that has it. An instance that is named must be that one. Errors:
// seedbed.ErrNotFound, ErrConflict for a volume that is not attached, and otherwise those of Attach.
func (in *Intake) Detach(ctx context.Context, project, name, instance string, o seedbed.JobOptions) (seedbed.Receipt, error) {
	v, err := in.ownVolume(ctx, project, name)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	switch {
	case v.Holder == "":
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "volume %q is not attached to an instance: it is %s", v.Name, v.State)
	case instance != "" && instance != v.Holder:
		return seedbed.Receipt{}, seedbed.Errorf(seedbed.ErrConflict, "volume %q is not attached to instance %q: instance %q has it", v.Name,
			seedbed.Clip(instance), v.Holder)
	}
	inst, err := in.instanceNamed(ctx, project, v.Holder)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	return in.attachment(ctx, inst, seedbed.JobDetach, seedbed.VolumeJob{ID: v.ID, Name: v.Name}, o)
}

func (in *Intake) instanceNamed(ctx context.Context, project, name string) (seedbed.Instance, error) {
	n := seedbed.Named(project, name)
	if err := n.Check(); err != nil {
		return seedbed.Instance{}, err
	}
	return in.store.InstanceByName(ctx, n)
}

// attachment accepts a job that attaches or detaches a volume.
func (in *Intake) attachment(ctx context.Context, inst seedbed.Instance, kind seedbed.JobKind, spec seedbed.VolumeJob,
	o seedbed.JobOptions) (r seedbed.Receipt, err error) {
	job := jobOn(inst, kind, o)
	if job.Spec, err = json.Marshal(spec); err != nil {
		return r, fmt.Errorf("encode the %s of %s: %w", kind, spec.Name, err)
	}
	return in.store.Accept(ctx, seedbed.Acceptance{Job: job})
}
