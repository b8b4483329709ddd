//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
)

// Locate implements worker.Adopter. The disk must be an image of the same Ceph pool, so that
// renaming it makes it a volume.
func (p *Pool) Locate(ctx context.Context, d seedbed.ForeignDisk) (seedbed.ForeignDisk, error) {
	name, ok := strings.CutPrefix(d.Source, p.cfg.Pool+"/")
	if d.Type != "rbd" || !ok || strings.Contains(name, "/") {
		return d, seedbed.Errorf(seedbed.ErrNotFound, "disk %s is not in Ceph pool %s", d.Target, p.cfg.Pool)
	}
	return call(ctx, p, "look at disk "+d.Source, name, func(_ context.Context, s *session) (seedbed.ForeignDisk, error) {
		t, err := p.adoptable(s, name)
		if err != nil {
			return d, err
		}
		d.Pool, d.Size, d.Image = p.cfg.Name, seedbed.Bytes(t.Size), t.Image
		return d, nil
	})
}

// adoptable inspects an RBD image that is to become a volume and returns the tag that it would
// have, without a name.
func (p *Pool) adoptable(s *session, name string) (t tag, err error) {
	have, there, err := s.readTag(name)
	switch {
	case err != nil:
		return t, err
	case !there:
		return t, seedbed.Errorf(seedbed.ErrNotFound, "RBD image %s/%s does not exist", p.cfg.Pool, name)
	case isTagOf(have, name) || strings.HasPrefix(name, building):
		return t, seedbed.Errorf(seedbed.ErrConflict, "RBD image %s/%s already belongs to Seedbed", p.cfg.Pool, name)
	}
	img, err := rbd.OpenImageReadOnly(s.io, name, rbd.NoSnapshot)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.closeImage(img)) }()
	size, err := img.GetSize()
	if err != nil {
		return t, err
	}
	t = tag{Role: roleVolume, State: stateReady, Node: p.cfg.Node, Size: int64(size)}
	parent, err := img.GetParent()
	if is(err, enoent) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	// A clone of one of our images keeps that image in use. Parents that are not ours are not
	// tracked.
	if role, image, ok := split(parent.Image.ImageName); ok && role == roleImage && parent.Image.PoolName == p.cfg.Pool {
		t.Image = image
	}
	return t, nil
}

// AdoptVolume implements worker.Adopter. The tag is written first. It names the image's final name,
// so that it takes effect only with the rename.
func (p *Pool) AdoptVolume(ctx context.Context, job seedbed.JobID, a seedbed.VolumeAdoption) (seedbed.VolumeInfo, error) {
	if err := seedbed.CheckName("volume", a.Name); err != nil {
		return seedbed.VolumeInfo{}, err
	}
	final := rbdOf(roleVolume, a.Name)
	return call(ctx, p, "adopt volume "+a.Name, final, func(ctx context.Context, s *session) (seedbed.VolumeInfo, error) {
		name, ok := strings.CutPrefix(a.Source, p.cfg.Pool+"/")
		if !ok {
			return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrInvalid, "disk %s is not in Ceph pool %s", a.Source, p.cfg.Pool)
		}
		have, there, err := s.readTag(final)
		switch {
		case err != nil:
			return seedbed.VolumeInfo{}, err
		case there && isTagOf(have, final) && have.Instance == a.Instance:
			return p.volume(s, have), nil
		case there && name != final:
			return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrConflict, "RBD image %s/%s already exists and is not changed", p.cfg.Pool, final)
		}
		t, err := p.adoptable(s, name)
		if err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if user, err := s.watcher(name); err == nil && user.Addr != "" {
			return seedbed.VolumeInfo{}, seedbed.Errorf(seedbed.ErrInUse, "RBD image %s is in use by %s: stop what uses it", a.Source, user.Addr)
		}
		t.Name, t.Job, t.Instance, t.Project = a.Name, job, a.Instance, a.Project
		h, err := s.header(name)
		if err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if err := s.writeTag(h, t); err != nil {
			return seedbed.VolumeInfo{}, err
		}
		if name != final {
			if err := s.rename(h, name, final); err != nil {
				return seedbed.VolumeInfo{}, errors.Join(err, s.dropTag(name))
			}
		}
		return p.volume(s, &t), nil
	})
}

// ReleaseVolume implements worker.Adopter.
func (p *Pool) ReleaseVolume(ctx context.Context, a seedbed.VolumeAdoption) error {
	if err := seedbed.CheckName("volume", a.Name); err != nil {
		return err
	}
	final := rbdOf(roleVolume, a.Name)
	return p.do(ctx, "release volume "+a.Name, final, func(ctx context.Context, s *session) error {
		back := final
		if name, ok := strings.CutPrefix(a.Source, p.cfg.Pool+"/"); ok {
			back = name
		}
		have, there, err := s.readTag(final)
		if err != nil {
			return err
		}
		if !there || !isTagOf(have, final) { // released, or never adopted: then at most the tag is there
			left, _, err := s.readTag(back)
			if err != nil || left == nil || left.Name != a.Name || left.Instance != a.Instance {
				return err
			}
			return s.dropTag(back)
		}
		if err := have.CheckInstance(p.cfg.Name, a.Instance); err != nil {
			return err
		}
		if back != final {
			h, err := s.header(final)
			if err == nil {
				err = s.rename(h, final, back)
			}
			if err != nil {
				return fmt.Errorf("rename RBD image %s/%s back: %w", p.cfg.Pool, back, err)
			}
		}
		return s.dropTag(back)
	})
}
