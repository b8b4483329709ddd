package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// volumeAddPlan makes a volume that no instance has.
func (t *task) volumeAddPlan() engine.Plan {
	return engine.Plan{AfterUndo: t.dropVolumeUpload, Stages: []engine.Stage{
		{Name: "make-volume", Run: t.makeVolume, Undo: t.unmakeVolume, Limit: t.makingLimit, Made: t.madeVolume}}}
}

// volumeRemovePlan removes a volume that no instance has. It is never undone, and can be requested again.
func (t *task) volumeRemovePlan() engine.Plan {
	return engine.Plan{Drops: true, Stages: []engine.Stage{{Name: "delete-volume", Run: t.deleteVolume}}}
}

// volumeResizePlan makes a volume larger. It stays larger, because its guest may use the new space at once.
func (t *task) volumeResizePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{Name: "grow", Run: t.enlargeVolume, Final: true}}}
}

// volumeSetPlan changes how fast a volume may be.
func (t *task) volumeSetPlan() engine.Plan {
	to := func(pick func(seedbed.VolumeJob) *seedbed.IOLimits) func(context.Context) error {
		return func(ctx context.Context) error { return t.limitVolume(ctx, pick) }
	}
	return engine.Plan{Stages: []engine.Stage{{Name: "limit",
		Run:  to(func(j seedbed.VolumeJob) *seedbed.IOLimits { return j.Limits }),
		Undo: strict(to(func(j seedbed.VolumeJob) *seedbed.IOLimits { return j.Was })),
	}}}
}

// attachPlan gives an instance a volume. Its metadata names the volume once the domain has it.
func (t *task) attachPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "attach", Run: t.attachVolume, Undo: strict(t.detachVolume)},
		{Name: "show-volume", Run: t.shown(seedbed.VolumeAttached), Undo: strict(t.shown(seedbed.VolumeAttaching))},
	}}
}

// detachPlan takes a volume from an instance. Its metadata no longer names the volume from then on.
func (t *task) detachPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "hide-volume", Run: t.shown(seedbed.VolumeDetaching), Undo: strict(t.shown(seedbed.VolumeAttached))},
		{Name: "detach", Run: t.detachVolume, Undo: strict(t.attachVolume)},
	}}
}

// volumeSpec returns the input of the job.
func (t *task) volumeSpec() (spec seedbed.VolumeJob, err error) {
	if err := t.input(&spec); err != nil {
		return spec, err
	}
	return spec, nil
}

// volume returns the volume that the job works on.
func (t *task) volume(ctx context.Context) (v seedbed.ProjectVolume, err error) {
	spec, err := t.volumeSpec()
	if err != nil {
		return v, err
	}
	if v, err = t.store.VolumeOf(ctx, spec.ID); err != nil {
		return v, fmt.Errorf("volume %s: %w", spec.Name, engine.FromStore(err))
	}
	return v, nil
}

// makingLimit returns the time limit of a stage that makes a volume. A copy takes as long as flattening.
func (t *task) makingLimit(context.Context) time.Duration {
	limit := t.StageLimit("make-volume")
	if spec, err := t.volumeSpec(); err == nil && (spec.From != nil || spec.Upload != nil) {
		limit = max(limit, t.StageLimit("flatten"))
	}
	return limit
}

func (t *task) makeVolume(ctx context.Context) error {
	v, err := t.volume(ctx)
	if err != nil {
		return err
	}
	spec, err := t.volumeSpec()
	if err != nil {
		return err
	}
	if spec.From != nil {
		return t.copyVolume(ctx, v, *spec.From)
	}
	if spec.Upload != nil {
		return t.fillVolume(ctx, v, *spec.Upload)
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.CloneVolume.Do(ctx, t.Worker(), call, seedbed.VolumeSpec{
			Pool: v.Pool, Name: v.Volume, Instance: v.Owner, Project: v.Project, Image: v.Image, Size: v.Size})
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", makingOf(seedbed.Volume{Name: v.Name, Image: v.Image}), err)
	}
	t.Event("info", 100, "volume %s is ready (%s in pool %s)", v.Name, v.Size, v.Pool)
	return nil
}

// copyVolume makes the volume a copy of another one.
func (t *task) copyVolume(ctx context.Context, v seedbed.ProjectVolume, from seedbed.VolumeSource) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.CopyVolume.Do(ctx, t.Worker(), call, seedbed.VolumeCopy{
			VolumeSpec: seedbed.VolumeSpec{Pool: v.Pool, Name: v.Volume, Instance: v.Owner, Project: v.Project, Size: v.Size},
			CopySource: from.Source(t.copySnapshot())}, effects.OnProgress(t.percent("copying")))
		return err
	})
	if err != nil {
		return fmt.Errorf("copy volume %s: %w", from.Name, err)
	}
	t.Event("info", 100, "volume %s is ready (%s in pool %s, a copy of %s)", v.Name, v.Size, v.Pool, from.Name)
	return nil
}

// fillVolume makes the volume of the disk in an uploaded file, and removes the file.
func (t *task) fillVolume(ctx context.Context, v seedbed.ProjectVolume, up seedbed.VolumeUpload) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.FillVolume.Do(ctx, t.Worker(), call, effects.UploadedVolume{
			VolumeSpec: seedbed.VolumeSpec{Pool: v.Pool, Name: v.Volume, Instance: v.Owner, Project: v.Project, Size: v.Size},
			Upload:     up.ID, Format: up.Format}, effects.OnProgress(t.percent("writing")))
		return err
	})
	if err != nil {
		return fmt.Errorf("make volume %s of the uploaded file: %w", v.Name, err)
	}
	if err := t.dropUpload(ctx, v.Pool, up.ID); err != nil {
		return err
	}
	t.Event("info", 100, "volume %s is ready (%s in pool %s, of the uploaded file)", v.Name, v.Size, v.Pool)
	return nil
}

// dropVolumeUpload removes what was uploaded for a volume that was not made, even if the job was cancelled before its first stage.
func (t *task) dropVolumeUpload(ctx context.Context) {
	if spec, err := t.volumeSpec(); err == nil && spec.Upload != nil {
		t.tryDropUpload(ctx, t.Job.Pool, spec.Upload.ID)
	}
}

// copySnapshot is the name of the snapshot that a driver may take of what the job copies.
func (t *task) copySnapshot() string { return "copy-" + t.Ref.ID.Short() }

func (t *task) unmakeVolume(ctx context.Context) error {
	v, err := t.volume(ctx)
	if err != nil {
		return err
	}
	spec, err := t.volumeSpec()
	if err != nil {
		return err
	}
	err = t.dropVolumes(ctx, seedbed.Instance{ID: v.Owner, System: seedbed.System{DiskCopy: spec.From != nil},
		Volumes: []seedbed.Volume{{Pool: v.Pool, Name: v.Volume}}})
	if err != nil || spec.From == nil {
		return err
	}
	return t.endCopying(ctx, cmp.Or(spec.From.Pool, v.Pool), *spec.From)
}

// endCopying removes the snapshot that was taken of a volume to copy it.
func (t *task) endCopying(ctx context.Context, pool string, from seedbed.VolumeSource) error {
	point := seedbed.SnapshotSpec{Pool: pool, Volume: from.Volume, Instance: from.Owner, Name: t.copySnapshot()}
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.RemoveSnapshot.Do(ctx, t.Worker(), call, effects.SnapshotRef{SnapshotSpec: point, Of: t.Ref.ID})
	})
	if err != nil {
		return engine.Left(seedbed.OrphanSnapshot, pool, point.Volume+"@"+point.Name,
			fmt.Errorf("end the copying of %s: %w", from.Name, err))
	}
	return nil
}

func (t *task) madeVolume(ctx context.Context) []seedbed.Orphan {
	v, err := t.volume(ctx)
	if err != nil {
		return nil // the stage is reported
	}
	return []seedbed.Orphan{{Kind: seedbed.OrphanVolume, Pool: v.Pool, Name: v.Volume}}
}

func (t *task) deleteVolume(ctx context.Context) error {
	v, err := t.volume(ctx)
	if err != nil {
		return err
	}
	return t.discard(ctx, seedbed.Volume{Pool: v.Pool, Name: v.Volume}, v.Owner, 100)
}

// enlargeVolume makes the volume larger in its pool and for the guest that has it, and makes the guest plane serve the new size.
func (t *task) enlargeVolume(ctx context.Context) error {
	spec, err := t.volumeSpec()
	if err != nil {
		return err
	}
	v, err := t.held(ctx)
	if err != nil {
		return err
	}
	var info seedbed.VolumeInfo
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		info, err = effects.ResizeVolume.Do(ctx, t.Worker(), call,
			effects.VolumeSize{Pool: v.Pool, Name: v.Volume, Instance: v.Owner, Size: spec.Size, Domain: v.Instance})
		return err
	})
	if err != nil {
		return fmt.Errorf("make volume %s larger: %w", v.Name, err)
	}
	if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetVolumeSize(ctx, t.Ref, info.Size) }); err != nil {
		return fmt.Errorf("record the size: %w", err)
	}
	t.Event("info", 100, "volume %s has %s now", v.Name, info.Size)
	if v.Instance == "" {
		return nil
	}
	_, err = t.refresh(ctx, t.Node(), v.Instance)
	return err
}

// limitVolume gives the volume the limits that pick chooses: at the guest that has it, in its domain's definition, and in the database.
func (t *task) limitVolume(ctx context.Context, pick func(seedbed.VolumeJob) *seedbed.IOLimits) error {
	spec, err := t.volumeSpec()
	if err != nil {
		return err
	}
	v, err := t.held(ctx)
	if err != nil {
		return err
	}
	var l seedbed.IOLimits
	if p := pick(spec); p != nil {
		l = *p
	}
	if v.Instance != "" {
		err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
			return effects.LimitDisk.Do(ctx, t.Worker(), call, effects.DiskLimits{
				DiskSerial: effects.DiskSerial{ID: v.Instance, Serial: v.Serial}, Limits: l})
		})
		if err != nil {
			return fmt.Errorf("limit volume %s at domain %s: %w", v.Name, t.Job.Subject, err)
		}
	}
	if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetVolumeLimits(ctx, t.Ref, l) }); err != nil {
		return fmt.Errorf("record the limits: %w", err)
	}
	t.Event("info", 100, "volume %s may do %s now", v.Name, cmp.Or(l.String(), "as much as its pool can"))
	return nil
}

// held returns the volume that the job works on. It returns ErrConflict if the job's instance does not have it, or if another one does.
func (t *task) held(ctx context.Context) (seedbed.ProjectVolume, error) {
	v, err := t.volume(ctx)
	if err == nil {
		err = v.CheckHolder(*t.Job)
	}
	return v, err
}

// attachVolume attaches the volume to the domain: to its definition and, if it runs, to its guest.
func (t *task) attachVolume(ctx context.Context) error { return t.attachFrom(ctx, "") }

// attachFrom attaches the volume as it is in a pool; empty means the one that it is recorded in.
func (t *task) attachFrom(ctx context.Context, pool string) error {
	v, err := t.held(ctx)
	if err != nil {
		return err
	}
	v.Pool = cmp.Or(pool, v.Pool)
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.AttachDisk.Do(ctx, t.Worker(), call, effects.DiskAttachment{
			ID: t.Job.Instance, Volume: effects.VolumeRef{Pool: v.Pool, Name: v.Volume, Instance: v.Owner},
			Serial: v.Serial, Bus: v.Bus, Device: v.Device, Limits: v.IOLimits})
	})
	if err != nil {
		return fmt.Errorf("attach volume %s to domain %s: %w", v.Name, t.Job.Subject, err)
	}
	t.Event("info", 100, "volume %s is attached to domain %s as %s, with the serial number %s", v.Name, t.Job.Subject, v.Device, v.Serial)
	return nil
}

// detachVolume detaches the volume from the domain, once its guest has let go of it.
func (t *task) detachVolume(ctx context.Context) error {
	v, err := t.held(ctx)
	if err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.DetachDisk.Do(ctx, t.Worker(), call, effects.DiskSerial{ID: t.Job.Instance, Serial: v.Serial})
	})
	if err != nil {
		return fmt.Errorf("detach volume %s from domain %s: %w", v.Name, t.Job.Subject, err)
	}
	t.Event("info", 100, "volume %s is detached from domain %s", v.Name, t.Job.Subject)
	return nil
}

// shown returns a function that records how far the volume is attached, and makes the guest plane serve that.
func (t *task) shown(to seedbed.VolumeState) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetAttachment(ctx, t.Ref, to) }); err != nil {
			return fmt.Errorf("record the attachment: %w", err)
		}
		_, err := t.refresh(ctx, t.Node(), t.Job.Instance)
		return err
	}
}

// attached returns how the volumes are reached that are attached to an instance.
func (t *task) attached(ctx context.Context, inst seedbed.Instance) (all []seedbed.AttachedDisk, err error) {
	for _, v := range inst.Attached {
		if v.State != seedbed.VolumeAttached {
			continue
		}
		info, err := effects.Volume.Ask(ctx, t.Worker(), effects.VolumeRef{Pool: v.Pool, Name: v.Volume, Instance: v.Owner})
		if err != nil {
			return nil, fmt.Errorf("attached volume %s: %w", v.Name, err)
		}
		all = append(all, seedbed.AttachedDisk{Disk: info.Disk, Serial: v.Serial, Bus: v.Bus, Device: v.Device, Limits: v.IOLimits})
	}
	return all, nil
}

// partVolumes removes the attached volumes that are not kept when the instance is removed.
func (t *task) partVolumes(ctx context.Context, inst seedbed.Instance) error {
	var failed []error
	for _, v := range inst.Attached {
		if v.Keep {
			t.Event("info", t.Progress(), "volume %s is kept", v.Name)
			continue
		}
		failed = append(failed, t.discard(ctx, seedbed.Volume{Pool: v.Pool, Name: v.Volume}, v.Owner, t.Progress()))
	}
	return errors.Join(failed...)
}

// leavesOut says which attached volumes the job does not work on. done is what is done with the instance's own disks.
func (t *task) leavesOut(ctx context.Context, done string) error {
	inst, err := t.Instance(ctx)
	for _, v := range inst.Attached {
		t.Event("warn", t.Progress(), "volume %s, which is attached, is left out: only the disks that the instance was made with are %s",
			v.Name, done)
	}
	return err
}
