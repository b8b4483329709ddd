//go:build ceph

package ceph

import (
	"context"
	"errors"
	"syscall"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/provision/image"
	"seedbed/provision/pooltag"
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

// CopyVolume implements worker.Copier. It takes a snapshot of the other volume, which a domain may use, clones that, flattens the clone
// (FlattenVolume), and removes the snapshot.
func (p *Pool) CopyVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeCopy, progress func(seedbed.Progress),
) (info seedbed.VolumeInfo, err error) {
	if err := pooltag.CheckCopy(spec); err != nil {
		return info, err
	}
	spec.Size = whole(spec.Size)
	point := seedbed.SnapshotSpec{Volume: spec.From, Instance: spec.Of, Name: spec.Snapshot}
	made, err := p.cloneOfVolume(ctx, job, spec, false)
	if err == nil && !made {
		if _, err = p.CreateSnapshot(ctx, job, point); err == nil {
			_, err = p.cloneOfVolume(ctx, job, spec, true)
		}
	}
	if err != nil {
		return info, err
	}
	if info, err = p.FlattenVolume(ctx, spec.Name, spec.Instance, progress); err != nil {
		return info, err
	}
	return info, p.RemoveSnapshot(ctx, point, job)
}

// cloneOfVolume reports whether the volume exists that is to be a copy. With taken, the snapshot of the other one has been taken, and it
// makes the volume.
func (p *Pool) cloneOfVolume(ctx context.Context, job seedbed.JobID, spec seedbed.VolumeCopy, taken bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cloneTimeouts*p.cfg.Timeout)
	defer cancel()
	want := tag{
		Role: roleVolume, Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, From: spec.From, Size: int64(spec.Size),
	}
	return call(ctx, p, "copy volume "+spec.From+" to "+spec.Name, rbdOf(roleVolume, spec.Name),
		func(ctx context.Context, s *session) (bool, error) {
			have, err := p.look(ctx, s, roleVolume, spec.Name, job)
			if err != nil {
				return false, err
			}
			if have != nil {
				return true, have.CheckSame(p.cfg.Name, want)
			}
			from, there, err := s.readTag(rbdOf(roleVolume, spec.From))
			switch {
			case err != nil || !taken && there:
				return false, err
			case !there:
				return false, seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", spec.From, p.cfg.Name)
			}
			if err := from.CheckCopied(spec); err != nil {
				return false, err
			}
			_, err = p.makeVolume(ctx, s, want, parent{rbdOf(roleVolume, spec.From), spec.Snapshot})
			return true, err
		})
}

// parent is the snapshot of an RBD image that a volume is cloned from; zero for a blank volume.
type parent struct{ image, snapshot string }

// clone makes the RBD image of that name a copy-on-write clone, in clone format 2, which does not require a protected snapshot.
func (s *session) clone(of parent, name string, opts *rbd.ImageOptions) error {
	if err := opts.SetUint64(rbd.ImageOptionCloneFormat, 2); err != nil {
		return err
	}
	return rbd.CloneImage(s.io, of.image, of.snapshot, s.io, name, opts)
}
