//go:build ceph

package ceph

import (
	"context"
	"errors"
	"syscall"

	"seedbed"
	"seedbed/provision/image"
)

// private returns the source in a form that no other process can change. A copy goes to the scratch
// directory. Files that cannot be images are refused before anything is copied.
func (p *Pool) private(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (context.Context, *image.Private, error) {
	need := func(seedbed.Bytes) error { return nil } // the scratch directory has no reserve
	ctx, from, err := src.Private(ctx, p.cfg.Scratch, need, progress)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = seedbed.Errorf(seedbed.ErrFull, "no room for a private copy of %s in the scratch directory %s: %v", src.Size.Human(), p.cfg.Scratch,
			err)
	}
	return ctx, from, err
}
