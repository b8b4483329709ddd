//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"seedbed"
	"seedbed/provision/image"
)

// private returns the source in a form that no other process can change. A copy goes to the scratch
// directory, has no name, and disappears when it is closed. Files that cannot be images are refused
// before anything is copied.
func (p *Pool) private(ctx context.Context, src *image.Source, progress func(seedbed.Progress)) (context.Context, *image.Private, error) {
	ctx, from, err := src.Private(ctx, func() (*os.File, error) {
		f, err := os.CreateTemp(p.cfg.Scratch, "seedbed-import-*")
		if err != nil {
			return nil, fmt.Errorf("make a private copy: %w", err)
		}
		if err := os.Remove(f.Name()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}, progress)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = seedbed.Errorf(seedbed.ErrFull, "no room for a private copy of %s in the scratch directory %s: %v", src.Size.Human(), p.cfg.Scratch,
			err)
	}
	return ctx, from, err
}
