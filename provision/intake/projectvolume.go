package intake

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
)

// volumeWork is the job that a request about a volume asks for.
type volumeWork struct {
	seedbed.Acceptance
	// becomes is the volume as the job makes it; without an ID if the job removes it.
	becomes seedbed.ProjectVolume
	// grows is by how much it grows in its pool.
	grows seedbed.Bytes
	// inst is the instance that has it, before or after the job, and image or from what it is made from; zero if there is none.
	inst  seedbed.Instance
	image seedbed.Image
	from  source
}

// changeVolume accepts a request to make, remove, resize, limit, attach or detach a volume of a project. Errors: seedbed.ErrNotFound;
// ErrInvalid for a wrong name, size, limit, pool or image, and if nothing would change; ErrExists for a name in use; ErrInUse while an
// instance has a volume that the job needs for itself, or a job works on either; ErrConflict for a disk that was made with an instance, for
// an instance that is neither running nor stopped, and for one whose node does not reach the volume; ErrForbidden if a quota does not allow
// it.
func (in *Intake) changeVolume(ctx context.Context, req seedbed.Request, delivery *seedbed.Delivery) (seedbed.Receipt, error) {
	w, err := in.volumeWork(ctx, req)
	if err != nil {
		return seedbed.Receipt{}, err
	}
	if w.Warnings, err = in.room(ctx, w.Job.Node, w.growth(), false); err != nil {
		return seedbed.Receipt{}, err
	}
	w.Delivery = delivery
	return in.store.Accept(ctx, w.Acceptance)
}

// growth returns by how much the volume grows in its pool.
func (w volumeWork) growth() map[string]seedbed.Bytes {
	if w.grows == 0 {
		return nil
	}
	return map[string]seedbed.Bytes{w.becomes.Pool: w.grows}
}

// volumeWork returns the job of a request about a volume.
func (in *Intake) volumeWork(ctx context.Context, req seedbed.Request) (volumeWork, error) {
	if err := seedbed.CheckName("volume", req.Name); err != nil {
		return volumeWork{}, err
	}
	if req.Action == seedbed.DoVolumeAdd {
		return in.newVolume(ctx, req)
	}
	v, err := in.store.ProjectVolume(ctx, req.Project, req.Name)
	if err == nil {
		err = v.CheckOwn()
	}
	if err != nil {
		return volumeWork{}, err
	}
	switch req.Action {
	case seedbed.DoVolumeRemove:
		job, err := in.volumeJob(ctx, v, req)
		return volumeWork{Acceptance: seedbed.Acceptance{Job: job}}, err
	case seedbed.DoVolumeResize:
		return in.largerVolume(ctx, v, req)
	case seedbed.DoVolumeSet:
		return in.limitedVolume(ctx, v, req)
	case seedbed.DoVolumeMove:
		return in.movedVolume(ctx, v, req)
	case seedbed.DoVolumeDownload:
		if err := req.Volume.Download.Check(); err != nil {
			return volumeWork{}, err
		}
		return in.downloadedVolume(ctx, v, req)
	case seedbed.DoVolumeDetach:
		return in.detach(ctx, v, req)
	}
	return in.attach(ctx, v, req)
}

// newVolume returns the job that makes a volume which no instance has.
func (in *Intake) newVolume(ctx context.Context, req seedbed.Request) (w volumeWork, err error) {
	add := req.Volume.Add
	if seedbed.IsTenant(ctx) && add.Node != "" && add.Upload == nil { // whose node is that which has the file
		return w, seedbed.Errorf(seedbed.ErrForbidden, "a node is chosen from the default project only: expected none")
	}
	switch {
	case add.Upload != nil && add.Image+add.From != "":
		return w, seedbed.Errorf(seedbed.ErrInvalid, "volume %q: a file is uploaded, so it is neither a clone nor a copy", req.Name)
	case add.Size == 0 && add.Image == "" && add.From == "":
		return w, seedbed.Errorf(seedbed.ErrInvalid, "volume %q: the size is missing: expected one, such as 10GiB, or an image", req.Name)
	case add.From != "" && add.Image+add.Node != "":
		return w, seedbed.Errorf(seedbed.ErrInvalid, "volume %q: from cannot be given with an image or a node: the copy is where %s is", req.Name,
			seedbed.Clip(add.From))
	}
	if add.Size != 0 {
		if err := seedbed.CheckDisk("size", add.Size); err != nil {
			return w, err
		}
	}
	if err := add.IOLimits.Check(); err != nil {
		return w, err
	}
	v := seedbed.ProjectVolume{ID: seedbed.NewVolumeID(), Project: req.Project, Name: req.Name, Size: add.Size, IOLimits: add.IOLimits}
	w.grows = add.Size
	if add.Image != "" {
		if w.image, err = in.imageOf(ctx, req.Project, add); err != nil {
			return w, err
		}
		add.Pool = cmp.Or(add.Pool, w.image.Pool)
		v.Image, w.grows = w.image.Name, cmp.Or(add.Size, w.image.Size)
		if w.image.Node != "" && add.Node == "" && w.image.Pool == add.Pool { // unless the pool is shared, only that node has the image
			if add.Node, err = in.placer.Keeper(ctx, w.image); err != nil {
				return w, unheld(ctx, add.Pool, err)
			}
		}
	}
	if add.From != "" {
		if w.from, err = in.sourceOf(ctx, req.Project, add.From); err != nil {
			return w, err
		}
		add.Pool, add.Node, w.grows = cmp.Or(add.Pool, w.from.Pool), w.from.Node, cmp.Or(add.Size, w.from.Size)
	}
	if add.Pool == "" && len(in.serving.Pools) > 0 {
		add.Pool = in.serving.Pools[0]
	}
	v.Pool = add.Pool
	if err := seedbed.CheckName("pool", v.Pool); err != nil {
		return w, err
	}
	node, err := in.placer.Holder(ctx, v.Pool, add.Node, w.from.Pool)
	if err != nil {
		return w, unheld(ctx, v.Pool, err)
	}
	var spec json.RawMessage
	if f := w.from; f.Name != "" || add.Upload != nil {
		input := seedbed.VolumeJob{ID: v.ID, Name: v.Name, Upload: add.Upload}
		if f.Name != "" {
			input.From = f.asSource()
		}
		if spec, err = specOf(req, input); err != nil {
			return w, err
		}
	}
	w.becomes = v
	w.becomes.Size, w.becomes.State = w.grows, seedbed.VolumeFree
	w.Acceptance = seedbed.Acceptance{Volume: &v,
		Job: seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.JobVolumeAdd, State: seedbed.JobQueued, Project: req.Project,
			Subject: req.Name, Node: node, Pool: v.Pool, JobOptions: req.JobOptions, Spec: spec}}
	return w, nil
}

func (in *Intake) instanceNamed(ctx context.Context, project, name string) (seedbed.Instance, error) {
	n := seedbed.Named(project, name)
	if err := n.Check(); err != nil {
		return seedbed.Instance{}, err
	}
	return in.store.InstanceByName(ctx, n)
}

// imageOf returns the image that a new volume is to be a clone of.
func (in *Intake) imageOf(ctx context.Context, project string, add seedbed.VolumeRequest) (image seedbed.Image, err error) {
	qualified, err := in.store.Resolve(ctx, seedbed.PublishedImage, project, add.Image)
	if err == nil {
		image, err = in.store.Image(ctx, qualified)
	}
	if errors.Is(err, seedbed.ErrNotFound) {
		err = seedbed.Errorf(seedbed.ErrInvalid, "image %q does not exist: expected one of seedbed image list", seedbed.Clip(add.Image))
	}
	return image, err
}

// volumeJob returns the job of a request about a volume that no instance has.
func (in *Intake) volumeJob(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (seedbed.Job, error) {
	node := v.Node
	if node == "" {
		var err error
		if node, err = in.placer.Holder(ctx, v.Pool, ""); err != nil {
			return seedbed.Job{}, unheld(ctx, v.Pool, err)
		}
	}
	return seedbed.Job{ID: seedbed.NewJobID(), Kind: seedbed.VolumeActions()[req.Action], State: seedbed.JobQueued, Project: v.Project,
		Subject: v.Name, Node: node, Pool: v.Pool, JobOptions: req.JobOptions}, nil
}

// largerVolume returns the job that makes a volume larger, whether an instance has it or not.
func (in *Intake) largerVolume(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (volumeWork, error) {
	size := req.Volume.Resize.Size
	if err := v.CheckLarger(size); err != nil {
		return volumeWork{}, err
	}
	w, err := in.onVolume(ctx, v, req, seedbed.VolumeJob{ID: v.ID, Name: v.Name, Size: size})
	w.grows, w.becomes.Size = size-v.Size, size
	return w, err
}

// limitedVolume returns the job that changes how fast a volume may be, whether an instance has it or not.
func (in *Intake) limitedVolume(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (volumeWork, error) {
	change := req.Volume.Set
	next, err := change.Of(v.IOLimits)
	if err != nil {
		return volumeWork{}, err
	}
	w, err := in.onVolume(ctx, v, req, seedbed.VolumeJob{ID: v.ID, Name: v.Name, Set: &change})
	w.becomes.IOLimits = next
	return w, err
}

// movedVolume returns the job that takes a volume to another pool.
func (in *Intake) movedVolume(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (w volumeWork, err error) {
	to := req.Volume.Move
	if err := seedbed.CheckName("pool", to.Pool); err != nil {
		return w, err
	}
	if seedbed.IsTenant(ctx) && to.Node != "" {
		return w, seedbed.Errorf(seedbed.ErrForbidden, "a node is chosen from the default project only: expected none")
	}
	w, err = in.onVolume(ctx, v, req, seedbed.VolumeJob{ID: v.ID, Name: v.Name, Place: &seedbed.VolumePlace{Pool: to.Pool}})
	if err != nil {
		return w, err
	}
	w.becomes.Pool, w.becomes.Image, w.grows = to.Pool, "", v.Size
	has := cmp.Or(v.Node, w.inst.Node) // which must do it
	if has != "" && to.Node != "" && to.Node != has {
		return w, seedbed.Errorf(seedbed.ErrInvalid, "volume %q is on node %s, and moves to another pool of that: expected no node", v.Name, has)
	}
	if w.Job.Node, err = in.placer.Holder(ctx, to.Pool, cmp.Or(has, to.Node), v.Pool); err != nil {
		return w, unheld(ctx, to.Pool, err)
	}
	return w, nil
}

// downloadedVolume returns the job that makes a file of a volume.
func (in *Intake) downloadedVolume(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (volumeWork, error) {
	w, err := in.onVolume(ctx, v, req, seedbed.VolumeJob{ID: v.ID, Name: v.Name, Download: &req.Volume.Download})
	if err == nil {
		err = in.readable(ctx, source{ProjectVolume: v, inst: w.inst})
	}
	return w, err
}

// onVolume returns a job on a volume: one of the instance that has it, if any does.
func (in *Intake) onVolume(
	ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request, spec seedbed.VolumeJob,
) (w volumeWork, err error) {
	if v.Holder != "" {
		return in.onHolder(ctx, v, v.Holder, req, spec)
	}
	w.becomes = v
	if w.Job, err = in.volumeJob(ctx, v, req); err != nil {
		return w, err
	}
	w.Job.Spec, err = specOf(req, spec)
	return w, err
}

// onHolder returns a job on a volume and the instance of its project that has it, or is to have it.
func (in *Intake) onHolder(
	ctx context.Context, v seedbed.ProjectVolume, holder string, req seedbed.Request, spec seedbed.VolumeJob,
) (w volumeWork, err error) {
	if w.inst, err = in.instanceNamed(ctx, v.Project, holder); err != nil {
		return w, err
	}
	w.becomes, w.Job = v, jobOn(w.inst, seedbed.VolumeActions()[req.Action], req.JobOptions)
	w.Job.Spec, err = specOf(req, spec)
	return w, err
}

func specOf(req seedbed.Request, spec seedbed.VolumeJob) (json.RawMessage, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		err = fmt.Errorf("encode the %s of %s: %w", req.Action, spec.Name, err)
	}
	return text, err
}

// attach returns the job that attaches a volume to an instance of its project.
func (in *Intake) attach(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (w volumeWork, err error) {
	to := req.Volume.Attach
	if to.Bus, err = seedbed.CheckBus(to.Bus); err != nil {
		return w, err
	}
	if to.Instance == "" {
		return w, seedbed.Errorf(seedbed.ErrInvalid, "volume %q: the instance to attach it to is missing", v.Name)
	}
	keep := to.Keep == nil || *to.Keep
	w, err = in.onHolder(ctx, v, to.Instance, req, seedbed.VolumeJob{ID: v.ID, Name: v.Name, Bus: to.Bus, Keep: keep})
	if err != nil {
		return w, err
	}
	if node, err := in.hasPool(ctx, w.inst.Node, v.Pool); err != nil {
		return w, err
	} else if !node {
		return w, seedbed.Errorf(seedbed.ErrConflict, "the node of instance %q does not have the pool %q of volume %q", w.inst.Name, v.Pool,
			v.Name)
	}
	w.becomes.Bus, w.becomes.Keep = to.Bus, keep
	return w, nil
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

// detach returns the job that takes a volume from the instance that has it. An instance that is named must be that one.
func (in *Intake) detach(ctx context.Context, v seedbed.ProjectVolume, req seedbed.Request) (volumeWork, error) {
	switch instance := req.Volume.Attach.Instance; {
	case v.Holder == "":
		return volumeWork{}, seedbed.Errorf(seedbed.ErrConflict, "volume %q is not attached to an instance: it is %s", v.Name, v.State)
	case instance != "" && instance != v.Holder:
		return volumeWork{}, seedbed.Errorf(seedbed.ErrConflict, "volume %q is not attached to instance %q: instance %q has it", v.Name,
			seedbed.Clip(instance), v.Holder)
	}
	return in.onHolder(ctx, v, v.Holder, req, seedbed.VolumeJob{ID: v.ID, Name: v.Name})
}

// planVolume returns what a job on a volume would make of it, and why it would not be accepted.
func (in *Intake) planVolume(ctx context.Context, req seedbed.Request) (seedbed.Plan, error) {
	p := seedbed.Plan{Project: req.Project, Name: req.Name, Volumes: []seedbed.Volume{}, NICs: []seedbed.NIC{}, Problems: []string{}}
	p.Stages = in.stages(&seedbed.Job{Kind: seedbed.VolumeActions()[req.Action]})
	w, err := in.volumeWork(ctx, req)
	if err != nil {
		return p, note(&p, err)
	}
	p.Stages = in.stages(&w.Job)
	if p.Node = w.Job.Node; seedbed.IsTenant(ctx) {
		p.Node = ""
	}
	if v := w.becomes; v.ID != "" {
		p.Image, p.Volumes = v.Image, []seedbed.Volume{{Pool: v.Pool, Size: v.Size, Image: v.Image}}
		if w.from.Name != "" {
			p.Notes = append(p.Notes, "it becomes a copy of volume "+w.from.Name)
		}
		if req.Action == seedbed.DoVolumeMove {
			p.Notes = append(p.Notes, "it is copied, and then removed where it was")
		}
		if limits := v.IOLimits.String(); limits != "" {
			p.Notes = append(p.Notes, "it may do "+limits)
		}
	}
	if err := note(&p, in.volumeProblem(ctx, req, w)); err != nil {
		return p, err
	}
	if s := w.inst.State; w.inst.ID != "" && s != seedbed.InstanceRunning && s != seedbed.InstanceStopped {
		p.Problems = append(p.Problems, fmt.Sprintf("instance %q is %s: it must be running or stopped", w.inst.Name, s))
	}
	if req.Action == seedbed.DoVolumeDetach && w.inst.State == seedbed.InstanceRunning {
		p.Notes = append(p.Notes, "the guest runs, and must let go of the volume")
	}
	notes, err := in.room(ctx, w.Job.Node, w.growth(), false)
	p.Notes = append(p.Notes, notes...)
	return p, err
}

// volumeProblem returns why the store would not accept a job on a volume, as things are now.
func (in *Intake) volumeProblem(ctx context.Context, req seedbed.Request, w volumeWork) error {
	v, err := in.store.ProjectVolume(ctx, req.Project, req.Name)
	switch {
	case req.Action == seedbed.DoVolumeAdd && (errors.Is(err, seedbed.ErrNotFound) || err == nil && v.ID == ""):
		switch {
		case w.from.Name != "":
			return w.from.CheckCopy(w.from.Pool, req.Volume.Add.Size)
		case w.image.Name == "":
			return nil
		}
		return w.image.CheckClone(w.becomes.Pool, req.Volume.Add.Size)
	case err != nil:
		return err
	case req.Action == seedbed.DoVolumeAdd:
		return seedbed.Errorf(seedbed.ErrExists, "volume %q exists already: choose another name (seedbed volume list)", v.Name)
	case req.Action == seedbed.DoVolumeRemove:
		return v.CheckIdle()
	case req.Action == seedbed.DoVolumeAttach:
		return v.CheckAttach(w.inst)
	case req.Action == seedbed.DoVolumeMove:
		return v.CheckMove(w.becomes.Pool, w.inst)
	}
	return nil
}
