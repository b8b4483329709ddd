package plans

import (
	"context"
	"time"

	"seedbed"
)

// copyVolumes makes full copies of cloned volumes if the instance's system template asks for that.
// An earlier attempt may have copied some of them.
func (t *task) copyVolumes(ctx context.Context, inst seedbed.Instance) error {
	if !inst.System.DiskCopy {
		return nil
	}
	return t.flattenAll(ctx, inst, "copying", func(v seedbed.Volume, made seedbed.VolumeInfo) {
		t.made[v.Pool+"/"+v.Name] = made.Disk
	})
}

// stopCopies stops the copying that copyVolumes started. A copy that cannot be stopped prevents its
// volume from being removed; the removal then reports that.
func (t *task) stopCopies(ctx context.Context, inst seedbed.Instance) {
	if !inst.System.DiskCopy {
		return
	}
	if err := t.stopFlattening(ctx, inst); err != nil {
		t.Event("warn", t.Progress(), "%s", err)
	}
}

// volumesLimit returns the time limit of a stage that makes volumes. Copying them takes as long as
// flattening.
func (t *task) volumesLimit(ctx context.Context) time.Duration {
	limit := t.StageLimit("volumes")
	if t.copies(ctx) {
		limit = max(limit, t.StageLimit("flatten"))
	}
	return limit
}

// copies reports whether the job copies disks. It ignores an error, which the stage itself will
// find.
func (t *task) copies(ctx context.Context) bool {
	if t.Job.Kind == seedbed.JobRebuild {
		r, err := t.rebuild(ctx)
		return err == nil && r.Next.System.DiskCopy
	}
	inst, err := t.Instance(ctx)
	return err == nil && inst.System.DiskCopy
}
