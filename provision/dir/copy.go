package dir

import (
	"context"

	"seedbed"
	"seedbed/provision/image"
)

// private returns the source in a form that no other process can change. A copy is in building/.
// Files that cannot be images are refused before anything is copied.
func (p *Pool) private(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (context.Context, *image.Private, error) {
	ctx, from, err := src.Private(ctx, p.building, p.need, progress)
	return ctx, from, p.room(err)
}
