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

// importPlan makes an image from a file on the worker's host, or from a volume.
func (t *task) importPlan() engine.Plan {
	if spec, err := t.importSpec(); err == nil && spec.From != nil {
		return t.importVolumePlan(spec)
	}
	return engine.Plan{AfterUndo: t.dropImportUpload, Stages: []engine.Stage{{Name: "import", Run: t.importImage, Undo: t.removeImage}}}
}

func (t *task) importImage(ctx context.Context) error {
	spec, err := t.importSpec()
	if err != nil {
		return err
	}
	image, err := t.store.Image(ctx, t.Job.Subject)
	if err != nil {
		return fmt.Errorf("image %s: %w", t.Job.Subject, engine.FromStore(err))
	}
	what := cmp.Or(spec.Path, "the uploaded file")
	t.Event("info", 0, "importing %s into pool %s", what, image.Pool)
	var info seedbed.ImageInfo
	err = t.fromFile(ctx, spec, image.Pool, func(ctx context.Context, w effects.Worker, call seedbed.Call) (err error) {
		info, err = effects.ImportImage.Do(ctx, w, call, seedbed.ImageSpec{
			Pool: image.Pool, Name: image.Name, Project: t.Job.Project,
			Path: spec.Path, Upload: spec.Upload, SHA256: spec.SHA256, Format: spec.Format},
			effects.OnProgress(t.percent("importing")))
		return err
	})
	if err != nil {
		return fmt.Errorf("import %s: %w", what, err)
	}
	if err := t.dropUpload(ctx, image.Pool, spec.Upload); err != nil {
		return err
	}
	info.Firmware = cmp.Or(spec.Firmware, info.Firmware)
	t.Result.Image = &info
	t.Event("info", 100, "image %s is ready (%s, %s)", info.Name, info.Size, info.Format)
	return nil
}

// fromFile imports a file where it is: on the job's node or, if the file is identified by its
// digest and is therefore the same everywhere, on another node that has the pool.
func (t *task) fromFile(ctx context.Context, spec seedbed.ImportSpec, pool string,
	do func(context.Context, effects.Worker, seedbed.Call) error) error {
	if spec.Path != "" && spec.SHA256 != "" {
		return t.InPool(ctx, t.Node(), pool, do)
	}
	return t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error { return do(ctx, t.Worker(), call) })
}

func (t *task) importSpec() (spec seedbed.ImportSpec, err error) {
	err = t.input(&spec)
	return spec, err
}

// percent returns a function that reports an effect's progress as events: one per percent, at most
// four a second.
func (t *task) percent(doing string) func(seedbed.Progress) {
	var told time.Time
	return func(p seedbed.Progress) {
		if n := p.Percent(); n > t.Progress() && time.Since(told) >= 250*time.Millisecond {
			told = time.Now()
			t.Record(seedbed.Event{Level: "info", Progress: n, BytesDone: p.Done, BytesTotal: p.Total,
				Msg: fmt.Sprintf("%s: %s of %s", doing, roundSize(p.Done), roundSize(p.Total))})
		}
	}
}

// roundSize formats a size for people.
func roundSize(b seedbed.Bytes) string {
	if b < seedbed.MiB {
		return b.String()
	}
	return (b / seedbed.MiB * seedbed.MiB).String()
}

func (t *task) removeImage(ctx context.Context) error { return t.dropImage(ctx, t.Ref.ID) }

// dropImage removes the job's image from its pool, if the job of made it.
func (t *task) dropImage(ctx context.Context, of seedbed.JobID) error {
	image, err := t.store.Image(ctx, t.Job.Subject)
	if err != nil {
		return fmt.Errorf("image %s: %w", t.Job.Subject, engine.FromStore(err))
	}
	err = t.InPool(ctx, cmp.Or(image.Node, t.Node()), image.Pool, func(ctx context.Context, w effects.Worker, call seedbed.Call) error {
		return effects.RemoveImage.Do(ctx, w, call, effects.ImageRef{Pool: image.Pool, Name: image.Name, Of: of})
	})
	if err != nil {
		return engine.Left(seedbed.OrphanImage, image.Pool, image.Name, fmt.Errorf("remove image %s of pool %s: %w", image.Name, image.Pool, err))
	}
	return nil
}

// dropUpload removes what was uploaded for the job. A file that cannot be removed now does no harm:
// its pool removes it within a day.
func (t *task) dropUpload(ctx context.Context, pool, id string) error {
	if id == "" {
		return nil
	}
	_, err := effects.DropUpload.Ask(ctx, t.Worker(), effects.UploadRef{Pool: pool, ID: id})
	if err == nil || ctx.Err() != nil || errors.Is(err, seedbed.ErrUnavailable) {
		return err
	}
	t.Event("warn", t.Progress(), "the uploaded file stays for now: %s", err)
	return nil
}

// tryDropUpload is dropUpload for a job that has ended.
func (t *task) tryDropUpload(ctx context.Context, pool, id string) {
	if err := t.dropUpload(ctx, pool, id); err != nil {
		t.Event("warn", t.Progress(), "the uploaded file stays for now: %s", err)
	}
}

// dropImportUpload removes what was uploaded for an image that was not imported, even if the job was
// cancelled before its first stage.
func (t *task) dropImportUpload(ctx context.Context) {
	spec, err := t.importSpec()
	if err != nil || spec.Upload == "" {
		return
	}
	if image, err := t.store.Image(ctx, t.Job.Subject); err == nil {
		t.tryDropUpload(ctx, image.Pool, spec.Upload)
	}
}
