package plans

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// volumeMovePlan takes a volume, which no guest uses, to another pool: it is copied there, and the copy compared; then the database and the
// domain of its instance have the copy instead; then the former is removed. Until that last stage, what was done is undone.
func (t *task) volumeMovePlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "copy", Run: t.copyMoved, Undo: t.dropMoved, Limit: t.copyLimit("copy"), Made: t.madeMoved},
		{Name: "move", Run: t.placed(newPlace), Undo: strict(t.placed(formerPlace)),
			Guards: "not undone, because the volume could not be taken back to its former pool: it may be the copy"},
		{Name: "delete-volume", Run: t.removeMoved, Final: true},
	}}
}

func newPlace(j seedbed.VolumeJob) *seedbed.VolumePlace    { return j.Place }
func formerPlace(j seedbed.VolumeJob) *seedbed.VolumePlace { return j.Former }

// moving returns the volume of a job that moves it, as it is recorded now, and the job's input.
func (t *task) moving(ctx context.Context) (v seedbed.ProjectVolume, spec seedbed.VolumeJob, err error) {
	if spec, err = t.volumeSpec(); err != nil {
		return v, spec, err
	}
	if spec.Place == nil || spec.Former == nil {
		return v, spec, fmt.Errorf("the job's input does not say from where to where volume %s moves", spec.Name)
	}
	v, err = t.held(ctx)
	return v, spec, err
}

// copyMoved makes the copy.
func (t *task) copyMoved(ctx context.Context) error {
	v, spec, err := t.moving(ctx)
	if err != nil {
		return err
	}
	if err := t.leavesSnapshots(ctx, v, spec.Former.Pool); err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.CopyVolume.Do(ctx, t.Worker(), call, seedbed.VolumeCopy{
			VolumeSpec: seedbed.VolumeSpec{Pool: spec.Place.Pool, Name: v.Volume, Instance: v.Owner, Project: v.Project, Size: v.Size},
			CopySource: t.formerSource(v, spec).Source(t.copySnapshot())}, effects.OnProgress(t.percent("copying")))
		return err
	})
	if err != nil {
		return fmt.Errorf("copy volume %s to pool %s: %w", v.Name, spec.Place.Pool, err)
	}
	if err := t.stillOff(ctx, v); err != nil {
		return err
	}
	t.Event("info", 100, "volume %s is copied to pool %s (%s), and the copy is the same", v.Name, spec.Place.Pool, v.Size)
	return nil
}

// formerSource is the volume where it was.
func (t *task) formerSource(v seedbed.ProjectVolume, spec seedbed.VolumeJob) seedbed.VolumeSource {
	return seedbed.VolumeSource{ID: v.ID, Name: v.Name, Volume: v.Volume, Owner: v.Owner, Pool: spec.Former.Pool}
}

// leavesSnapshots says which snapshots of the volume do not move with it.
func (t *task) leavesSnapshots(ctx context.Context, v seedbed.ProjectVolume, pool string) error {
	all, err := effects.Snapshots.Ask(ctx, t.Worker(), effects.VolumeRef{Pool: pool, Name: v.Volume, Instance: v.Owner})
	if err != nil {
		return fmt.Errorf("volume %s of pool %s: %w", v.Name, pool, err)
	}
	var names []string
	for _, s := range all {
		if s.Name != t.copySnapshot() {
			names = append(names, s.Name)
		}
	}
	if len(names) > 0 {
		t.Event("warn", t.Progress(), "the snapshots of volume %s (%s) do not move with it: they stay with what is removed from pool %s", v.Name,
			strings.Join(names, ", "), pool)
	}
	return nil
}

// dropMoved removes the copy, and the snapshot that was taken for it.
func (t *task) dropMoved(ctx context.Context) error {
	v, spec, err := t.moving(ctx)
	if err != nil {
		return err
	}
	if v.Pool != spec.Former.Pool { // never what the volume is now
		return fmt.Errorf("volume %s is recorded in pool %s: expected %s, where it was", v.Name, v.Pool, spec.Former.Pool)
	}
	err = t.dropVolumes(ctx, seedbed.Instance{ID: v.Owner, Volumes: []seedbed.Volume{{Pool: spec.Place.Pool, Name: v.Volume}}})
	if err != nil {
		return err
	}
	return t.endCopying(ctx, spec.Former.Pool, t.formerSource(v, spec))
}

func (t *task) madeMoved(ctx context.Context) []seedbed.Orphan {
	v, spec, err := t.moving(ctx)
	if err != nil {
		return nil // the stage is reported
	}
	return []seedbed.Orphan{{Kind: seedbed.OrphanVolume, Pool: spec.Place.Pool, Name: v.Volume}}
}

// placed returns a function that makes the volume the one in the place that pick chooses: in the definition of the domain that has it,
// which is off, and in the database.
func (t *task) placed(pick func(seedbed.VolumeJob) *seedbed.VolumePlace) func(context.Context) error {
	return func(ctx context.Context) error {
		v, spec, err := t.moving(ctx)
		if err != nil {
			return err
		}
		to := *pick(spec)
		if err := t.stillOff(ctx, v); err != nil {
			return err
		}
		if v.Instance != "" {
			if err := t.detachVolume(ctx); err != nil {
				return err
			}
			if err := t.attachFrom(ctx, to.Pool); err != nil {
				return err
			}
		}
		if err := t.fromStoreWrite(ctx, func(ctx context.Context) error { return t.store.SetVolumePlace(ctx, t.Ref, to) }); err != nil {
			return fmt.Errorf("record the pool: %w", err)
		}
		t.Event("info", 100, "volume %s is in pool %s now", v.Name, to.Pool)
		return nil
	}
}

// stillOff returns ErrConflict if an instance has the volume, and its guest runs: somebody has started it without a job.
func (t *task) stillOff(ctx context.Context, v seedbed.ProjectVolume) error {
	if v.Instance == "" {
		return nil
	}
	off, err := t.isOff(ctx)
	if err == nil && !off {
		err = seedbed.Errorf(seedbed.ErrConflict, "domain %s runs: expected it to be off until volume %s has moved", t.Job.Subject, v.Name)
	}
	return err
}

// removeMoved removes the volume where it was.
func (t *task) removeMoved(ctx context.Context) error {
	v, spec, err := t.moving(ctx)
	if err != nil {
		return err
	}
	if v.Pool != spec.Place.Pool {
		return fmt.Errorf("volume %s is recorded in pool %s: expected %s, where it was copied to", v.Name, v.Pool, spec.Place.Pool)
	}
	return t.discard(ctx, seedbed.Volume{Pool: spec.Former.Pool, Name: v.Volume}, v.Owner, 100)
}

// volumeDownloadPlan makes a file of a volume, from which it is downloaded once the job has ended.
func (t *task) volumeDownloadPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{{Name: "copy", Run: t.writeFile, Undo: t.dropFile, Limit: t.copyLimit("copy")}}}
}

// downloaded returns the volume of a job that makes a file of it, and the file.
func (t *task) downloaded(ctx context.Context) (v seedbed.ProjectVolume, file effects.VolumeExport, err error) {
	spec, err := t.volumeSpec()
	if err != nil {
		return v, file, err
	}
	if v, err = t.held(ctx); err != nil {
		return v, file, err
	}
	file = effects.VolumeExport{VolumeFile: seedbed.FileOf(v.Pool, v.ID, t.Ref.ID), Format: seedbed.FileQCOW2}
	if spec.Download != nil {
		file.Format = cmp.Or(spec.Download.Format, file.Format)
	}
	file.Source = seedbed.VolumeSource{Volume: v.Volume, Owner: v.Owner, Pool: v.Pool}.Source(t.copySnapshot())
	return v, file, nil
}

// writeFile makes the file.
func (t *task) writeFile(ctx context.Context) error {
	v, file, err := t.downloaded(ctx)
	if err != nil {
		return err
	}
	var size seedbed.Bytes
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		size, err = effects.ExportVolume.Do(ctx, t.Worker(), call, file, effects.OnProgress(t.percent("reading")))
		return err
	})
	if err != nil {
		return fmt.Errorf("make a file of volume %s: %w", v.Name, err)
	}
	t.Event("info", 100, "the file of volume %s is ready (%s, %s): it can be downloaded for a day", v.Name, file.Format, size)
	return nil
}

// dropFile removes the file, and the snapshot that was taken for it.
func (t *task) dropFile(ctx context.Context) error {
	v, file, err := t.downloaded(ctx)
	if err != nil {
		return err
	}
	if err := t.dropUpload(ctx, v.Pool, file.ID); err != nil {
		return err
	}
	return t.endCopying(ctx, v.Pool, seedbed.VolumeSource{Name: v.Name, Volume: v.Volume, Owner: v.Owner})
}
