package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"seedbed"
)

// imageRemovePlan removes an image that nothing uses any more. It is never undone, and can be
// requested again.
func (t *task) imageRemovePlan() []stage {
	return []stage{{name: "delete-image", run: t.deleteImage}}
}

func (t *task) imageRemoval() (r seedbed.ImageRemoval, err error) {
	if err = json.Unmarshal(t.job.Spec, &r); err != nil {
		err = fmt.Errorf("read the job's input: %w", err)
	}
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
	t.event("info", 100, "image %s is removed", t.job.Subject)
	return nil
}

// failure returns the outcome of a failed job that is never undone. An image that could not be
// removed because it has clones was not touched, so it gets its former state back.
func (t *task) failure(cause string, err error) seedbed.JobResult {
	out := seedbed.JobResult{State: seedbed.JobFailed, Error: cause}
	switch t.job.Kind {
	case seedbed.JobRemove:
		out.InstanceState = seedbed.InstanceFailed
	case seedbed.JobImageRemove:
		if removal, bad := t.imageRemoval(); bad == nil && errors.Is(err, seedbed.ErrInUse) {
			out.ImageState = removal.Was
		}
	case seedbed.JobOVARemove:
		if spec, bad := t.ovaJob(); bad == nil && errors.Is(err, seedbed.ErrInUse) {
			out.ImageState = spec.Was
		}
	}
	return out
}
