package intake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	return &seedbed.VolumeSource{ID: s.ID, Name: s.Name, Volume: s.Volume, Owner: s.Owner, Pool: s.Pool, Snapshot: s.snapshot}
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

// Clone accepts a request to make an instance with copies of the disks of the instance called name. Errors: ErrNotFound for an instance or
// a snapshot that does not exist, ErrConflict for one that runs in a directory pool, whose script made its domain or whose user-data
// holds its own report address in a form that cannot be given another, and otherwise those of a create.
func (in *Intake) Clone(
	ctx context.Context, name seedbed.InstanceName, req seedbed.CloneRequest, o seedbed.JobOptions,
) (receipt seedbed.Receipt, err error) {
	if o, err = in.resolve(ctx, name.Project, o); err != nil {
		return receipt, err
	}
	return in.clone(ctx, name, req, o, nil)
}

// clone is Clone for a request that a delivery may have carried.
func (in *Intake) clone(
	ctx context.Context, name seedbed.InstanceName, req seedbed.CloneRequest, o seedbed.JobOptions, delivery *seedbed.Delivery,
) (receipt seedbed.Receipt, err error) {
	r, spec, err := in.cloned(ctx, name, req)
	if err != nil {
		return receipt, err
	}
	input, err := json.Marshal(spec)
	if err != nil {
		return receipt, fmt.Errorf("encode the clone of %s: %w", name.Name, err)
	}
	return in.acceptRestored(ctx, r, seedbed.JobClone, input, o, delivery)
}

// PlanClone returns what Clone would make, and why it would not be accepted. It writes nothing.
func (in *Intake) PlanClone(ctx context.Context, name seedbed.InstanceName, req seedbed.CloneRequest) (seedbed.Plan, error) {
	spec := seedbed.CloneJob{Generalise: req.Generalise}
	job := &seedbed.Job{Kind: seedbed.JobClone}
	p, err := in.planRestored(ctx, name.Project, req.Name, req.Node, job, func() (r restored, err error) {
		r, spec, err = in.cloned(ctx, name, req)
		return r, err
	})
	if err != nil {
		return p, err
	}
	job.Spec, err = json.Marshal(spec)
	p.Stages = in.stages(job)
	return p, err
}

// cloned returns the instance that a clone makes, and the input of its job.
func (in *Intake) cloned(ctx context.Context, name seedbed.InstanceName, req seedbed.CloneRequest) (
	r restored, spec seedbed.CloneJob, err error,
) {
	if err := cmp.Or(seedbed.CheckInstanceName(req.Name), req.Freeze.Check()); err != nil {
		return r, spec, err
	}
	if req.Freeze != "" && req.Snapshot != "" {
		return r, spec, seedbed.Errorf(seedbed.ErrInvalid, "freeze is for what the disks have now: expected no snapshot with it")
	}
	if seedbed.IsTenant(ctx) && req.Node != "" {
		return r, spec, seedbed.Errorf(seedbed.ErrForbidden, "a node is chosen from the default project only: expected none")
	}
	of, err := in.instanceNamed(ctx, name.Project, name.Name)
	switch {
	case err != nil:
		return r, spec, err
	case of.State != seedbed.InstanceRunning && of.State != seedbed.InstanceStopped:
		return r, spec, seedbed.Errorf(seedbed.ErrConflict, "instance %q is %s: it must be running or stopped to be cloned", of.Name, of.State)
	case len(of.Volumes) == 0:
		return r, spec, seedbed.Errorf(seedbed.ErrInvalid, "instance %q has no disks that could be copied: make another by its profile", of.Name)
	}
	switch _, err := in.store.ScriptDomain(ctx, of.ID); {
	case err == nil:
		return r, spec, seedbed.Errorf(seedbed.ErrConflict, "the domain of instance %q was made by its script, which is only run by a create: "+
			"make another by its profile, or copy its disks (seedbed volume add --from %s:0)", of.Name, of.Name)
	case !errors.Is(err, seedbed.ErrNotFound):
		return r, spec, err
	}
	if r.inst, err = in.likeOf(ctx, of, req); err != nil {
		return r, spec, err
	}
	r.inst.NICs, r.drawn, err = in.restoredNICs(ctx, of.Project, seedbed.BackupConfig{NICs: of.NICs},
		seedbed.BackupRestoreRequest{Networks: req.Networks}, &r.notes)
	if err != nil {
		return r, spec, err
	}
	spec = seedbed.CloneJob{From: of.Name, Source: of.ID, Freeze: req.Freeze, Generalise: req.Generalise,
		Together: of.State == seedbed.InstanceRunning && req.Snapshot == ""}
	node := req.Node
	for i, d := range of.Volumes {
		from := fmt.Sprintf("%s:%d", of.Name, d.Index)
		if req.Snapshot != "" {
			from += "@" + req.Snapshot
		}
		source, err := in.sourceOf(ctx, of.Project, from)
		if err != nil {
			return r, spec, err
		}
		spec.Disks = append(spec.Disks, *source.asSource())
		r.inst.Volumes = append(r.inst.Volumes,
			seedbed.Volume{Pool: d.Pool, Name: fmt.Sprintf("%s-%d", r.inst.ID, i), Index: d.Index, Size: d.Size})
		info, known, err := in.placer.Room(ctx, of.Node, d.Pool)
		switch {
		case err != nil:
			return r, spec, err
		case known && info.Shared:
		case req.Node != "" && req.Node != of.Node:
			return r, spec, seedbed.Errorf(seedbed.ErrConflict, "pool %q is not shared, and instance %q is on node %s: expected that node, or none",
				d.Pool, of.Name, of.Node)
		default:
			node = of.Node
		}
	}
	for _, v := range of.Attached {
		r.notes = append(r.notes, "volume "+v.Name+", which is attached, is left out")
	}
	if of.PlacementGroup != "" {
		r.notes = append(r.notes, fmt.Sprintf("it is in no placement group, unlike %s, which is in %s (seedbed vm set --placement-group)",
			of.Name, of.PlacementGroup))
	}
	if of.System.TPM {
		r.notes = append(r.notes, fmt.Sprintf("its TPM is empty: a disk that the guest of %s has encrypted with its own needs the recovery key",
			of.Name))
	}
	if spec.Together {
		r.notes = append(r.notes, frozenNotes[cmp.Or(req.Freeze, seedbed.FreezeAuto)])
	}
	r.demand, err = in.demands(ctx, r.inst, nil, r.inst.Volumes, node)
	r.demand.Limit, r.demand.Selector = r.inst.System.NodeLimit, r.inst.System.NodeSelector
	return r, spec, err
}

// frozenNotes say how the disks of a guest that runs are cloned.
var frozenNotes = map[seedbed.Freeze]string{
	seedbed.FreezeAuto: "the guest runs: if its agent answers, its file systems are frozen while snapshots of its disks are taken, and " +
		"otherwise they are copied as a loss of power would leave them",
	seedbed.FreezeAlways: "the guest runs: its file systems are frozen while snapshots of its disks are taken",
	seedbed.FreezeNever:  "the guest runs: its disks are copied as a loss of power would leave them",
}

// likeOf returns a new instance with the configuration of another one, without its NICs and disks. Nothing that tells the two apart is the
// same: the ID and the secret of its report address are others, also in its documents.
func (in *Intake) likeOf(ctx context.Context, of seedbed.Instance, req seedbed.CloneRequest) (seedbed.Instance, error) {
	i := seedbed.Instance{
		ID: of.Datasource.NewInstanceID(), Project: of.Project, Name: req.Name, Profile: of.Profile, Image: of.Image,
		State: seedbed.InstanceProvisioning, VCPUs: of.VCPUs, Memory: of.Memory, Ready: of.Ready, Held: req.Off, Follow: of.Follow,
		Source: of.Source, Params: of.Params, System: of.System, UserData: of.UserData, VendorData: of.VendorData, SSHKeys: of.SSHKeys,
		Datasource: of.Datasource, Metadata: of.Metadata, Tags: of.Tags, Notes: of.Notes,
	}
	if of.ReportToken != "" {
		i.ReportToken = newReportToken()
		was, now := []byte(of.ReportToken), []byte(i.ReportToken)
		if i.Ready == seedbed.ReadyReport && !bytes.Contains(i.UserData, was) {
			return i, seedbed.Errorf(seedbed.ErrConflict, "the user-data of instance %q does not have its report address in plain text, so that a "+
				"clone would not report: rebuild it first, or make another by its profile", of.Name)
		}
		i.UserData, i.VendorData = replaced(i.UserData, was, now), replaced(i.VendorData, was, now)
	}
	from := cmp.Or(of.Image, of.CDROM) // which may be what says the firmware
	if from == "" {
		return i, nil
	}
	image, err := in.store.Image(ctx, from)
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return i, err
	}
	if image.State != seedbed.ImageActive {
		i.Image = "" // no disk is a clone of it
	}
	i.System.Firmware = cmp.Or(i.System.Firmware, image.Firmware)
	return i, nil
}

// replaced returns a document with other text in place of some. A missing document stays missing, and an empty one empty.
func replaced(doc, was, now []byte) []byte {
	if len(doc) == 0 {
		return doc
	}
	return bytes.ReplaceAll(doc, was, now)
}
