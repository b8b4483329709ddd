//go:build ceph

package ceph

import (
	"context"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
)

// Volume implements worker.Resizer.
func (p *Pool) Volume(ctx context.Context, name string, id seedbed.InstanceID) (seedbed.VolumeInfo, error) {
	return call(ctx, p, "look at volume "+name, rbdOf(roleVolume, name), func(ctx context.Context, s *session) (seedbed.VolumeInfo, error) {
		have, err := p.there(ctx, s, name, id)
		if err != nil {
			return seedbed.VolumeInfo{}, err
		}
		return p.volume(s, have), nil
	})
}

// ResizeVolume implements worker.Resizer.
func (p *Pool) ResizeVolume(ctx context.Context, name string, id seedbed.InstanceID, size seedbed.Bytes) (seedbed.VolumeInfo, error) {
	return call(ctx, p, "resize volume "+name, rbdOf(roleVolume, name), func(ctx context.Context, s *session) (seedbed.VolumeInfo, error) {
		have, err := p.there(ctx, s, name, id)
		if err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if err := p.volume(s, have).CheckGrowth(size); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if err := p.cfg.Mapper.Free(p.cfg.Name, name); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if err := p.grow(s, have, size); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		return p.volume(s, have), nil
	})
}

// grow sets the size of the RBD image and then of its tag. A client that has the image open, such
// as a domain's QEMU, may already have grown it.
func (p *Pool) grow(s *session, have *tag, size seedbed.Bytes) error {
	rbdName := rbdOf(roleVolume, have.Name)
	err := s.byName(rbdName, func(img *rbd.Image) error {
		now, err := img.GetSize()
		switch {
		case err != nil:
			return err
		case now > uint64(size):
			return seedbed.Errorf(seedbed.ErrInvalid, "RBD image %s/%s already has %s, and would lose everything after %s", p.cfg.Pool, rbdName,
				seedbed.Bytes(now), size)
		case now == uint64(size):
			return nil
		}
		if err := p.need(s, 0); err != nil {
			return err
		}
		return img.Resize(uint64(size))
	})
	if err != nil || have.Size == int64(size) {
		return err
	}
	have.Grow(size)
	return s.setTag(rbdName, *have)
}
