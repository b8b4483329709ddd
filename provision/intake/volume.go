package intake

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

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

// source is a volume that is to be copied.
type source struct {
	seedbed.ProjectVolume
	// snapshot is the one whose content is wanted; empty means what the volume has now.
	snapshot string
	// inst is the instance that has it; zero if none has.
	inst seedbed.Instance
}

func (s source) asSource() *seedbed.VolumeSource {
	return &seedbed.VolumeSource{ID: s.ID, Name: s.Name, Volume: s.Volume, Owner: s.Owner, Snapshot: s.snapshot}
}

// sourceOf returns the volume that a request means with the name of a volume, that of an instance, INSTANCE:INDEX, or one of the latter two
// with @SNAPSHOT. It returns ErrConflict for one that only its instance can read now.
func (in *Intake) sourceOf(ctx context.Context, project, from string) (s source, err error) {
	name, snapshot, at := strings.Cut(from, "@")
	if at {
		if err := seedbed.CheckName("snapshot", snapshot); err != nil {
			return s, err
		}
	}
	instance, index, ofInstance := strings.Cut(name, ":")
	switch {
	case ofInstance:
		s, err = in.diskOf(ctx, project, instance, index)
	default:
		s, err = in.volumeOrDisk(ctx, project, name)
	}
	if err != nil {
		return s, err
	}
	if at && s.ID != "" {
		return s, seedbed.Errorf(seedbed.ErrInvalid, "volume %q has no snapshots of its own: expected INSTANCE:INDEX@SNAPSHOT", name)
	}
	if s.snapshot = snapshot; at {
		s.Name += "@" + snapshot
		d := seedbed.Volume{Pool: s.Pool, Name: s.Volume, Size: s.Size}
		if found, known := in.reported(ctx, s.inst, d, snapshot); known && found.Name == "" {
			return s, seedbed.Errorf(seedbed.ErrNotFound, "disk %d of instance %q has no snapshot %q (seedbed vm snapshot list %s)", s.Index,
				s.inst.Name, snapshot, s.inst.Name)
		}
	}
	return s, in.readable(ctx, s)
}

// volumeOrDisk returns the volume of that name, or the first disk of the instance of that name.
func (in *Intake) volumeOrDisk(ctx context.Context, project, name string) (s source, err error) {
	if err := seedbed.CheckName("volume", name); err != nil {
		return s, err
	}
	v, missing := in.store.ProjectVolume(ctx, project, name)
	if missing != nil && !errors.Is(missing, seedbed.ErrNotFound) {
		return s, missing
	}
	inst, err := in.instanceNamed(ctx, project, name)
	switch {
	case missing != nil && err == nil:
		return in.diskOf(ctx, project, name, "0")
	case missing != nil && errors.Is(err, seedbed.ErrNotFound):
		return s, seedbed.Errorf(seedbed.ErrNotFound, "neither a volume nor an instance is called %q (seedbed volume list, seedbed vm list)",
			name)
	case missing != nil:
		return s, err
	case err == nil:
		return s, seedbed.Errorf(seedbed.ErrInvalid, "both a volume and instance %q have that name: expected %s:0 for the first disk of "+
			"the instance; rename the volume for the other (seedbed volume rename)", inst.Name, inst.Name)
	}
	s.ProjectVolume = v
	if v.Holder != "" {
		s.inst, err = in.instanceNamed(ctx, project, v.Holder)
		return s, err
	}
	return s, nil
}

// diskOf returns a disk that an instance was made with, by its index.
func (in *Intake) diskOf(ctx context.Context, project, instance, index string) (s source, err error) {
	inst, err := in.instanceNamed(ctx, project, instance)
	if err != nil {
		return s, err
	}
	at := slices.IndexFunc(inst.Volumes, func(d seedbed.Volume) bool { return strconv.Itoa(d.Index) == index })
	if at < 0 {
		return s, seedbed.Errorf(seedbed.ErrNotFound, "instance %q has no disk %q: expected a number of seedbed vm show", inst.Name,
			seedbed.Clip(index))
	}
	d := inst.Volumes[at]
	return source{inst: inst, ProjectVolume: seedbed.ProjectVolume{Project: project, Name: instance + ":" + index, Pool: d.Pool,
		Volume: d.Name, Owner: inst.ID, Instance: inst.ID, Holder: inst.Name, Node: inst.Node, State: seedbed.VolumeAttached,
		Size: d.Size, Index: d.Index}}, nil
}

// readable returns ErrConflict for a volume that only its instance can read now.
func (in *Intake) readable(ctx context.Context, s source) error {
	if s.inst.State != seedbed.InstanceRunning {
		return nil
	}
	info, known, err := in.placer.Room(ctx, s.inst.Node, s.Pool)
	if err == nil && known && info.Type == seedbed.PoolDir {
		err = seedbed.Errorf(seedbed.ErrConflict, "instance %q is running, and a volume in the directory pool %q can only be copied while it is "+
			"off (seedbed vm stop %s)", s.inst.Name, s.Pool, s.inst.Name)
	}
	return err
}
