package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// ovaPlan makes an image of each disk of an OVA.
func (t *task) ovaPlan() engine.Plan {
	return engine.Plan{AfterUndo: t.dropOVAUpload, Stages: []engine.Stage{{Name: "import", Run: t.importOVA, Undo: t.removeOVAImages}}}
}

// ovaRemovePlan removes the images of an OVA. It is never undone, and can be requested again.
func (t *task) ovaRemovePlan() engine.Plan {
	return engine.Plan{Drops: true, Failed: t.ovaStays, Stages: []engine.Stage{{Name: "delete-image", Run: t.deleteOVA}}}
}

func (t *task) ovaJob() (spec seedbed.OVAJob, err error) {
	err = t.input(&spec)
	return spec, err
}

func (t *task) importOVA(ctx context.Context) error {
	spec, err := t.ovaJob()
	if err != nil {
		return err
	}
	t.Result.Images = nil
	for i, v := range spec.Volumes {
		t.Event("info", 100*i/len(spec.Volumes), "importing disk %s (%s) into pool %s", v.Disk, v.File, v.Pool)
		var info seedbed.ImageInfo
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			info, err = effects.ImportImage.Do(ctx, t.Worker(), call,
				seedbed.ImageSpec{Pool: v.Pool, Name: v.Image, Project: t.Job.Project, Upload: spec.Upload, SHA256: spec.SHA256, Member: v.File},
				effects.OnProgress(t.part("importing disk "+v.Disk, i, len(spec.Volumes))))
			return err
		})
		if err != nil {
			return fmt.Errorf("import disk %s: %w", v.Disk, err)
		}
		t.Result.Images = append(t.Result.Images, info)
	}
	for _, pool := range poolsOf(spec.Volumes) {
		if err := t.dropUpload(ctx, pool, spec.Upload); err != nil {
			return err
		}
	}
	t.Event("info", 100, "the %d disks of %s are ready", len(spec.Volumes), t.Job.Subject)
	return nil
}

// part is like percent, for the n-th of several equal parts of a stage.
func (t *task) part(doing string, n, of int) func(seedbed.Progress) {
	report := t.percent(doing)
	return func(p seedbed.Progress) {
		total := p.Total * seedbed.Bytes(of)
		report(seedbed.Progress{Done: p.Total*seedbed.Bytes(n) + p.Done, Total: total})
	}
}

func poolsOf(volumes []seedbed.OVAVolume) []string {
	var all []string
	seen := map[string]bool{}
	for _, v := range volumes {
		if !seen[v.Pool] {
			seen[v.Pool] = true
			all = append(all, v.Pool)
		}
	}
	return all
}

// dropOVAUpload removes what was uploaded for an OVA that was not imported, even if the job was
// cancelled before its first stage.
func (t *task) dropOVAUpload(ctx context.Context) {
	spec, err := t.ovaJob()
	if err != nil {
		return
	}
	for _, pool := range poolsOf(spec.Volumes) {
		t.tryDropUpload(ctx, pool, spec.Upload)
	}
}

// ovaStays is imageStays for the images of an OVA.
func (t *task) ovaStays(out *seedbed.JobResult, err error) {
	if spec, bad := t.ovaJob(); bad == nil && errors.Is(err, seedbed.ErrInUse) {
		out.ImageState = spec.Was
	}
}

// removeOVAImages removes the images that the job made. It tries all, even if some fail.
func (t *task) removeOVAImages(ctx context.Context) error {
	spec, err := t.ovaJob()
	if err != nil {
		return err
	}
	var problems []error
	for _, v := range spec.Volumes {
		err := t.removeVolumeOf(ctx, v, t.Ref.ID)
		if errors.Is(err, seedbed.ErrConflict) { // a foreign image of that name: nothing of ours is left
			t.Event("warn", t.Progress(), "left untouched: %s", err)
			err = nil
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (t *task) removeVolumeOf(ctx context.Context, v seedbed.OVAVolume, of seedbed.JobID) error {
	image, err := t.store.Image(ctx, v.Image)
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return fmt.Errorf("image %s: %w", v.Image, engine.FromStore(err))
	}
	err = t.InPool(ctx, cmp.Or(image.Node, t.Node()), v.Pool, func(ctx context.Context, w effects.Worker, call seedbed.Call) error {
		return effects.RemoveImage.Do(ctx, w, call, effects.ImageRef{Pool: v.Pool, Name: v.Image, Of: of})
	})
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return engine.Left(seedbed.OrphanImage, v.Pool, v.Image, fmt.Errorf("remove image %s of pool %s: %w", v.Image, v.Pool, err))
	}
	return nil
}

// deleteOVA removes the images of an OVA. ErrInUse means that all of them still exist.
func (t *task) deleteOVA(ctx context.Context) error {
	spec, err := t.ovaJob()
	if err != nil {
		return err
	}
	for i, v := range spec.Volumes {
		err := t.removeVolumeOf(ctx, v, spec.Import)
		if i > 0 && errors.Is(err, seedbed.ErrInUse) {
			return fmt.Errorf("%s; disks before it are removed already", err) // without a kind, because the removal can no longer be taken back
		}
		if err != nil {
			return err
		}
	}
	t.Event("info", 100, "OVA image %s is removed", t.Job.Subject)
	return nil
}
