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

// RemoveImage implements worker.ImageStore. If a clone of the image is made during the removal, the
// image stays in RBD's trash until the clone is gone.
func (p *Pool) RemoveImage(ctx context.Context, job seedbed.JobID, name string) error {
	if err := seedbed.CheckQualifiedName("image", name); err != nil {
		return err
	}
	rbdName := rbdOf(roleImage, name)
	return p.do(ctx, "remove image "+name, rbdName, func(ctx context.Context, s *session) error {
		have, err := p.lookOwn(ctx, s, job, name)
		if err != nil {
			return err
		}
		if have == nil {
			return p.delete(ctx, s, rbdName) // an interrupted removal leaves a name without an image
		}
		if err := p.noClones(s, name); err != nil {
			return err
		}
		// From here on no new clones are made. Looking a second time finds those that were just
		// being made.
		t := *have
		t.State = stateRemoving
		if err := s.setTag(rbdName, t); err != nil {
			return err
		}
		if err := p.noClones(s, name); err != nil {
			t.State = stateReady
			return errors.Join(err, s.setTag(rbdName, t))
		}
		if err := p.dropSnapshot(s, rbdName); err != nil {
			return err
		}
		err = p.delete(ctx, s, rbdName)
		if is(err, enotempty) { // the snapshot is gone, but a clone still reads it
			err = rbd.GetImage(s.io, rbdName).Trash(0)
			p.soil()
		}
		return err
	})
}

// noClones returns ErrInUse if the image has clones in any pool.
func (p *Pool) noClones(s *session, name string) error {
	img, err := rbd.OpenImageReadOnly(s.io, rbdOf(roleImage, name), snapshot)
	if is(err, enoent) {
		return nil // without its snapshot it has no clones
	}
	if err != nil {
		return err
	}
	clones, err := img.ListChildrenAttributes()
	if err := errors.Join(err, s.closeImage(img)); err != nil {
		return err
	}
	if len(clones) == 0 {
		return nil
	}
	one, hint := strings.TrimPrefix(clones[0].ImageName, rbdOf(roleVolume, "")), ""
	if clones[0].Trash {
		hint = fmt.Sprintf(", which is in the trash: purge it first (seedbed trash purge %s)", clones[0].ImageID)
	}
	return seedbed.Errorf(seedbed.ErrInUse, "image %s in pool %s has %d clones: volume %s in Ceph pool %s is one%s", name, p.cfg.Name,
		len(clones), one, clones[0].PoolName, hint)
}
