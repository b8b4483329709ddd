package dir

import (
	"context"
	"fmt"

	"seedbed"
)

// Volume implements worker.Resizer.
func (p *Pool) Volume(ctx context.Context, name string, id seedbed.InstanceID) (seedbed.VolumeInfo, error) {
	if err := p.enter(ctx); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("look at volume %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.there(name, id)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return p.volume(have), nil
}

// ResizeVolume implements worker.Resizer. A file that a domain has open must be resized by the
// domain: QEMU's own lock keeps others out.
func (p *Pool) ResizeVolume(ctx context.Context, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error) {
	if err := p.enter(ctx); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("resize volume %s: %w", name, err)
	}
	defer p.leave()
	have, err := p.there(name, id)
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	if err := p.grow(ctx, have, size); err != nil {
		return seedbed.VolumeInfo{}, fmt.Errorf("resize volume %s in pool %s: %w", name, p.name, p.room(err))
	}
	return p.volume(have), nil
}

// grow sets the size of the file and then of its tag.
func (p *Pool) grow(ctx context.Context, have *tag, size seedbed.Bytes) error {
	if err := p.volume(have).CheckGrowth(size); err != nil {
		return err
	}
	if err := p.mapper.Free(p.name, have.Name); err != nil {
		return err
	}
	path, file := p.file(volumes, have.Name), p.contents(have)
	info, err := file.Header()
	if err != nil {
		return err
	}
	switch {
	case info.Size > size:
		return seedbed.Errorf(seedbed.ErrInvalid, "its file already has %s, and would lose everything after %s", info.Size, size)
	case info.Size < size:
		if err := p.need(cloneRoom); err != nil {
			return err
		}
		if err := file.Resize(ctx, size); err != nil {
			return err
		}
		if err := syncPath(path); err != nil {
			return err
		}
	}
	if have.Size == int64(size) {
		return nil
	}
	have.Grow(size)
	return p.writeTag(path+tagSuffix, *have)
}
