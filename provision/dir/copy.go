package dir

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/provision/image"
)

// copyIn gives a file with the disk of the source that nobody else writes to, and the
// source's SHA-256 digest: a copy in building/ or, of an upload, the file as it is.
// drop, which is never nil, removes the copy. What cannot be an image is refused
// before anything is copied.
func (p *Pool) copyIn(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (path, sum string, drop func(), err error) {
	drop = func() {}
	if err := src.Look(); err != nil {
		return "", "", drop, err
	}
	if f, sum, ok := src.Uploaded(); ok {
		return f.Name(), sum, drop, nil
	}
	if err := p.need(min(src.Size, src.Allocated)); err != nil {
		return "", "", drop, err
	}
	dst, err := p.temp(".part")
	if err != nil {
		return "", "", drop, p.room(err)
	}
	sum, err = src.Copy(ctx, dst, progress)
	return dst.Name(), sum, func() { p.discard(dst.Name()) }, p.room(errors.Join(err, dst.Close()))
}
