package dir

import (
	"context"
	"errors"
	"os"

	"seedbed"
	"seedbed/provision/image"
)

// private returns the source in a form that no other process can change. A copy is in building/,
// has no name, and disappears when it is closed. Files that cannot be images are refused before
// anything is copied.
func (p *Pool) private(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (context.Context, *image.Private, error) {
	ctx, from, err := src.Private(ctx, func() (*os.File, error) {
		if err := p.need(min(src.Size, src.Allocated)); err != nil {
			return nil, err
		}
		f, err := p.temp(".part")
		if err != nil {
			return nil, err
		}
		if err := os.Remove(f.Name()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}, progress)
	return ctx, from, p.room(err)
}
