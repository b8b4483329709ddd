package provision

import (
	"context"
	"time"

	"seedbed"
)

// copyVolumes makes whole copies of volumes that were cloned, where the instance's
// system asks for that. An attempt before this one may have copied some.
func (t *task) copyVolumes(ctx context.Context, inst seedbed.Instance) error {
	if !inst.System.DiskCopy {
		return nil
	}
	return t.flattenAll(ctx, inst, "copying", func(v seedbed.Volume, made seedbed.VolumeInfo) {
		t.made[v.Pool+"/"+v.Name] = made.Disk
	})
}

// stopCopies ends what copyVolumes has begun. What goes on all the same keeps its
// volume from being removed, which then says so.
func (t *task) stopCopies(ctx context.Context, inst seedbed.Instance) {
	if !inst.System.DiskCopy {
		return
	}
	if err := t.stopFlattening(ctx, inst); err != nil {
		t.event("warn", t.progress, "%s", err)
	}
}

// volumesLimit is the time of a stage that makes volumes: copying them takes as long as flattening.
func (t *task) volumesLimit(ctx context.Context) time.Duration {
	limit := t.stageLimit("volumes")
	if t.copies(ctx) {
		limit = max(limit, t.stageLimit("flatten"))
	}
	return limit
}

// copies reports whether the job copies disks. An error is for the stage to find.
func (t *task) copies(ctx context.Context) bool {
	if t.job.Kind == seedbed.JobRebuild {
		r, err := t.rebuild(ctx)
		return err == nil && r.Next.System.DiskCopy
	}
	inst, err := t.instance(ctx)
	return err == nil && inst.System.DiskCopy
}
