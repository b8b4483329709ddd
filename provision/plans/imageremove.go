package plans

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/provision/engine"
)

// imageRemovePlan removes an image that nothing uses any more. It is never undone, and can be
// requested again.
func (t *task) imageRemovePlan() engine.Plan {
	return engine.Plan{Drops: true, Failed: t.imageStays, Stages: []engine.Stage{{Name: "delete-image", Run: t.deleteImage}}}
}

func (t *task) imageRemoval() (r seedbed.ImageRemoval, err error) {
	err = t.input(&r)
	return r, err
}

func (t *task) deleteImage(ctx context.Context) error {
	removal, err := t.imageRemoval()
	if err != nil {
		return err
	}
	if err := t.dropImage(ctx, removal.Import); err != nil {
		return err
	}
	t.Event("info", 100, "image %s is removed", t.Job.Subject)
	return nil
}

// imageStays gives an image that could not be removed because it has clones its former state back:
// it was not touched.
func (t *task) imageStays(out *seedbed.JobResult, err error) {
	if removal, bad := t.imageRemoval(); bad == nil && errors.Is(err, seedbed.ErrInUse) {
		out.ImageState = removal.Was
	}
}
