package dir

import (
	"context"
	"errors"

	"seedbed"
	"seedbed/provision/image"
)

// copyIn copies the source into building/ and returns the copy's path and its
// SHA-256 digest. The path is set whenever there is a file to discard.
// What cannot be an image is refused before anything is copied.
func (p *Pool) copyIn(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (path, sum string, err error) {
	if err := src.Look(); err != nil {
		return "", "", err
	}
	if err := p.need(min(src.Size, src.Allocated)); err != nil {
		return "", "", err
	}
	dst, err := p.temp(".part")
	if err != nil {
		return "", "", p.room(err)
	}
	sum, err = src.Copy(ctx, dst, progress)
	return dst.Name(), sum, p.room(errors.Join(err, dst.Close()))
}
