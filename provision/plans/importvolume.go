package plans

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// generalise is the script that generalises a copy of a disk.
//
//go:embed generalise.py
var generalise string

// generaliseTools are the programs that it needs.
var generaliseTools = []string{"debugfs", "dumpe2fs", "e2fsck"}

// importVolumePlan makes an image from a volume. What is to be generalised is copied first, because the volume stays as it is.
func (t *task) importVolumePlan(spec seedbed.ImportSpec) engine.Plan {
	last := engine.Stage{Name: "import", Run: t.importVolume, Undo: t.removeImageOf, Limit: t.copyLimit("import")}
	if spec.Generalised == nil {
		return engine.Plan{Stages: []engine.Stage{last}}
	}
	return engine.Plan{Stages: []engine.Stage{
		{Name: "copy", Run: t.copyForImage, Undo: t.dropWorkingCopy, Limit: t.copyLimit("copy"), Made: t.madeWorkingCopy},
		{Name: "generalise", Run: t.generaliseCopy, Undo: t.closeGeneralising},
		last,
	}}
}

// copyLimit returns the time limit of a stage that copies a volume, which takes as long as flattening.
func (t *task) copyLimit(stage string) func(context.Context) time.Duration {
	return func(context.Context) time.Duration { return max(t.StageLimit(stage), t.StageLimit("flatten")) }
}

// imageAndSpec returns the image that the job makes, and its input.
func (t *task) imageAndSpec(ctx context.Context) (image seedbed.Image, spec seedbed.ImportSpec, err error) {
	if spec, err = t.importSpec(); err != nil {
		return image, spec, err
	}
	if image, err = t.store.Image(ctx, t.Job.Subject); err != nil {
		err = fmt.Errorf("image %s: %w", t.Job.Subject, engine.FromStore(err))
	}
	return image, spec, err
}

// importVolume makes the image from the volume, or from the copy of it that was generalised and is removed then.
func (t *task) importVolume(ctx context.Context) error {
	image, spec, err := t.imageAndSpec(ctx)
	if err != nil {
		return err
	}
	from := spec.From
	if spec.Generalised != nil {
		from = spec.Generalised
	}
	var info seedbed.ImageInfo
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		info, err = effects.ImportImage.Do(ctx, t.Worker(), call, seedbed.ImageSpec{
			Pool: image.Pool, Name: image.Name, Project: t.Job.Project, CopySource: from.Source(t.copySnapshot())},
			effects.OnProgress(t.percent("copying")))
		return err
	})
	if err != nil {
		return fmt.Errorf("make an image of volume %s: %w", from.Name, err)
	}
	if err := t.dropWorkingCopy(ctx); err != nil {
		return err
	}
	info.Firmware = spec.Firmware
	t.Result.Image = &info
	t.Event("info", 100, "image %s is ready (%s, a copy of volume %s)", info.Name, info.Size, spec.From.Name)
	return nil
}

// removeImageOf removes the image, and the snapshot that was taken for it.
func (t *task) removeImageOf(ctx context.Context) error {
	image, spec, err := t.imageAndSpec(ctx)
	if err != nil {
		return err
	}
	if err := t.removeImage(ctx); err != nil || spec.Generalised != nil {
		return err
	}
	return t.endCopying(ctx, image.Pool, *spec.From)
}

func (t *task) copyForImage(ctx context.Context) error {
	image, spec, err := t.imageAndSpec(ctx)
	if err != nil {
		return err
	}
	if err := t.hasTools(ctx); err != nil {
		return err
	}
	work := *spec.Generalised
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		_, err := effects.CopyVolume.Do(ctx, t.Worker(), call, seedbed.VolumeCopy{
			VolumeSpec: seedbed.VolumeSpec{Pool: image.Pool, Name: work.Volume, Instance: work.Owner, Project: t.Job.Project, Size: spec.Size},
			CopySource: spec.From.Source(t.copySnapshot())}, effects.OnProgress(t.percent("copying")))
		return err
	})
	if err != nil {
		return fmt.Errorf("copy volume %s: %w", spec.From.Name, err)
	}
	t.Event("info", 100, "volume %s is copied (%s)", spec.From.Name, spec.Size)
	return nil
}

// dropWorkingCopy removes the copy that is generalised, and the snapshot that was taken for it. Without one it does nothing.
func (t *task) dropWorkingCopy(ctx context.Context) error {
	image, spec, err := t.imageAndSpec(ctx)
	if err != nil || spec.Generalised == nil {
		return err
	}
	work := spec.Generalised
	err = t.dropVolumes(ctx, seedbed.Instance{ID: work.Owner, System: seedbed.System{DiskCopy: true},
		Volumes: []seedbed.Volume{{Pool: image.Pool, Name: work.Volume}}})
	if err != nil {
		return err
	}
	return t.endCopying(ctx, image.Pool, *spec.From)
}

func (t *task) madeWorkingCopy(ctx context.Context) []seedbed.Orphan {
	image, spec, err := t.imageAndSpec(ctx)
	if err != nil {
		return nil // the stage is reported
	}
	return []seedbed.Orphan{{Kind: seedbed.OrphanVolume, Pool: image.Pool, Name: spec.Generalised.Volume}}
}

// generaliseCopy runs the script that generalises the copy.
func (t *task) generaliseCopy(ctx context.Context) error {
	image, spec, err := t.imageAndSpec(ctx)
	if err != nil {
		return err
	}
	work := spec.Generalised
	return t.generaliseVolume(ctx,
		generalising{pool: image.Pool, volume: work.Volume, owner: work.Owner, name: image.Name, of: spec.From.Name})
}

func (t *task) closeGeneralising(ctx context.Context) error {
	spec, err := t.importSpec()
	if err != nil {
		return err
	}
	return t.endGeneralising(ctx, spec.Generalised.Owner)
}

// generalising is a copy of a volume that is to be generalised. owner is the instance in its tag, name what is made of it, and of what
// messages call it.
type generalising struct {
	pool, volume, name, of string
	owner                  seedbed.InstanceID
}

// generaliseVolume runs the script that generalises a copy. It may run again on what an interrupted one has left.
func (t *task) generaliseVolume(ctx context.Context, g generalising) error {
	data, err := json.Marshal(map[string]string{"pool": g.pool, "volume": g.volume})
	if err != nil {
		return err
	}
	t.script = &scriptSide{run: seedbed.ScriptRun{Script: seedbed.Script{Name: "generalise"}}, covers: strings.NewReplacer()}
	start := seedbed.ScriptStart{Instance: g.owner, Name: g.name, Profile: g.name, Number: "0", Text: generalise, Data: data}
	for _, turn := range []seedbed.ScriptTurn{{Start: &start}, {Step: "install"}} {
		result, err := t.scriptTurn(ctx, turn)
		if err != nil {
			return err
		}
		if f := result.Failure; f != nil {
			return seedbed.Errorf(seedbed.ErrInvalid, "generalise volume %s: %s", g.of, f.Message)
		}
	}
	if err := t.endGeneralising(ctx, g.owner); err != nil {
		return err
	}
	t.Event("info", 100, "the copy is generalised")
	return nil
}

// endGeneralising ends the script that generalises the copy of an owner.
func (t *task) endGeneralising(ctx context.Context, owner seedbed.InstanceID) error {
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.CloseScript.Do(ctx, t.Worker(), call, effects.DomainRef{ID: owner})
	})
	if err != nil {
		return fmt.Errorf("end the script: %w", err)
	}
	return nil
}

// hasTools returns ErrInvalid if the node lacks programs that generalise a disk.
func (t *task) hasTools(ctx context.Context) error {
	host, err := effects.ScriptHost.Ask(ctx, t.Worker(), effects.ToolNames{Tools: generaliseTools})
	if err == nil && len(host.Missing) > 0 {
		err = seedbed.Errorf(seedbed.ErrInvalid, "node %s has no %s, which generalise disks: install e2fsprogs there", t.Node(),
			strings.Join(host.Missing, ", "))
	}
	return err
}
