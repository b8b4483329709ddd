package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// importPlan makes an image from a file on the worker's host.
func (t *task) importPlan() Plan {
	return Plan{AfterUndo: t.dropImportUpload, Stages: []Stage{{Name: "import", Run: t.importImage, Undo: t.removeImage}}}
}

func (t *task) importImage(ctx context.Context) error {
	spec, err := t.importSpec()
	if err != nil {
		return err
	}
	image, err := t.store.Image(ctx, t.job.Subject)
	if err != nil {
		return fmt.Errorf("image %s: %w", t.job.Subject, fromStore(err))
	}
	what := cmp.Or(spec.Path, "the uploaded file")
	t.event("info", 0, "importing %s into pool %s", what, image.Pool)
	var info seedbed.ImageInfo
	err = t.fromFile(ctx, spec, image.Pool, func(ctx context.Context, w effects.Worker, call seedbed.Call) (err error) {
		info, err = effects.ImportImage.Do(ctx, w, call, seedbed.ImageSpec{
			Pool: image.Pool, Name: image.Name, Path: spec.Path, Upload: spec.Upload, SHA256: spec.SHA256, Format: spec.Format}, effects.OnProgress(t.percent("importing")))
		return err
	})
	if err != nil {
		return fmt.Errorf("import %s: %w", what, err)
	}
	if err := t.dropUpload(ctx, image.Pool, spec.Upload); err != nil {
		return err
	}
	info.Firmware = cmp.Or(spec.Firmware, info.Firmware)
	t.result.image = &info
	t.event("info", 100, "image %s is there (%s, %s)", info.Name, info.Size, info.Format)
	return nil
}

// fromFile imports a file where it is: on the job's node or, if the file is identified by its
// digest and is therefore the same everywhere, on another node that has the pool.
func (t *task) fromFile(ctx context.Context, spec seedbed.ImportSpec, pool string, do func(context.Context, effects.Worker, seedbed.Call) error) error {
	if spec.Path != "" && spec.SHA256 != "" {
		return t.inPool(ctx, t.node(), pool, do)
	}
	return t.effect(ctx, func(ctx context.Context, call seedbed.Call) error { return do(ctx, t.worker(), call) })
}

func (t *task) importSpec() (spec seedbed.ImportSpec, err error) {
	if err = json.Unmarshal(t.job.Spec, &spec); err != nil {
		err = fmt.Errorf("read the job's input: %w", err)
	}
	return spec, err
}

// percent returns a function that reports an effect's progress as events: one per percent, at most
// four a second.
func (t *task) percent(doing string) func(seedbed.Progress) {
	var told time.Time
	return func(p seedbed.Progress) {
		if n := p.Percent(); n > t.progress() && time.Since(told) >= 250*time.Millisecond {
			told = time.Now()
			t.record(seedbed.Event{Level: "info", Progress: n, BytesDone: p.Done, BytesTotal: p.Total,
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

func (t *task) removeImage(ctx context.Context) error { return t.dropImage(ctx, t.ref.ID) }

// dropImage removes the job's image from its pool, if the job of made it.
func (t *task) dropImage(ctx context.Context, of seedbed.JobID) error {
	image, err := t.store.Image(ctx, t.job.Subject)
	if err != nil {
		return fmt.Errorf("image %s: %w", t.job.Subject, fromStore(err))
	}
	err = t.inPool(ctx, cmp.Or(image.Node, t.node()), image.Pool, func(ctx context.Context, w effects.Worker, call seedbed.Call) error {
		return effects.RemoveImage.Do(ctx, w, call, effects.ImageRef{Pool: image.Pool, Name: image.Name, Of: of})
	})
	if err != nil {
		return left(seedbed.OrphanImage, image.Pool, image.Name, fmt.Errorf("remove image %s of pool %s: %w", image.Name, image.Pool, err))
	}
	return nil
}

// dropUpload removes what was uploaded for the job. A file that cannot be removed now does no harm:
// its pool removes it within a day.
func (t *task) dropUpload(ctx context.Context, pool, id string) error {
	if id == "" {
		return nil
	}
	_, err := effects.DropUpload.Ask(ctx, t.worker(), effects.UploadRef{Pool: pool, ID: id})
	if err == nil || ctx.Err() != nil || errors.Is(err, seedbed.ErrUnavailable) {
		return err
	}
	t.event("warn", t.progress(), "the uploaded file stays for now: %s", err)
	return nil
}

// tryDropUpload is dropUpload for a job that has ended.
func (t *task) tryDropUpload(ctx context.Context, pool, id string) {
	if err := t.dropUpload(ctx, pool, id); err != nil {
		t.event("warn", t.progress(), "the uploaded file stays for now: %s", err)
	}
}

// dropImportUpload removes what was uploaded for an image that was not imported, even if the job was
// cancelled before its first stage.
func (t *task) dropImportUpload(ctx context.Context) {
	spec, err := t.importSpec()
	if err != nil || spec.Upload == "" {
		return
	}
	if image, err := t.store.Image(ctx, t.job.Subject); err == nil {
		t.tryDropUpload(ctx, image.Pool, spec.Upload)
	}
}
