//go:build ceph

package ceph

import (
	"cmp"
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

// CopyVolume implements worker.Copier. It takes a snapshot of the other volume, which a domain may use, clones that, or the one whose
// content is wanted, flattens the clone (FlattenVolume), and removes the snapshot that it has taken.
func (p *Pool) CopyVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeCopy, progress func(seedbed.Progress),
) (info seedbed.VolumeInfo, err error) {
	if err := pooltag.CheckCopy(spec); err != nil {
		return info, err
	}
	spec.Size = whole(spec.Size)
	made, err := p.cloneOfVolume(ctx, job, spec, false)
	if err == nil && !made {
		if err = p.takePoint(ctx, job, spec.CopySource); err == nil {
			_, err = p.cloneOfVolume(ctx, job, spec, true)
		}
	}
	if err != nil {
		return info, err
	}
	if info, err = p.FlattenVolume(ctx, spec.Name, spec.Instance, progress); err != nil {
		return info, err
	}
	return info, p.dropPoint(ctx, job, spec.CopySource)
}

// takePoint takes the snapshot of a volume from which it is copied, unless it is copied from one that it has.
func (p *Pool) takePoint(ctx context.Context, job seedbed.JobID, s seedbed.CopySource) error {
	if s.At != "" {
		return nil
	}
	_, err := p.CreateSnapshot(ctx, job, seedbed.SnapshotSpec{Volume: s.From, Instance: s.Of, Name: s.Snapshot})
	return err
}

// dropPoint removes what takePoint has taken.
func (p *Pool) dropPoint(ctx context.Context, job seedbed.JobID, s seedbed.CopySource) error {
	if s.At != "" {
		return nil
	}
	return p.RemoveSnapshot(ctx, seedbed.SnapshotSpec{Volume: s.From, Instance: s.Of, Name: s.Snapshot}, job)
}

// imageOf makes an image with what a volume, which a domain may use, has now or had at a snapshot.
func (p *Pool) imageOf(
	ctx context.Context, job seedbed.JobID, spec seedbed.ImageSpec, progress func(seedbed.Progress),
) (*tag, error) {
	if err := p.takePoint(ctx, job, spec.CopySource); err != nil {
		return nil, err
	}
	t := tag{Role: roleImage, Name: spec.Name, Project: spec.Project, Job: job, Format: string(image.Raw)}
	from, err := call(ctx, p, "look at volume "+spec.From, rbdOf(roleVolume, spec.From), func(ctx context.Context, s *session) (*tag, error) {
		have, err := p.there(ctx, s, spec.From, spec.Of)
		if err == nil {
			err = have.CheckAt(p.cfg.Name, spec.CopySource)
		}
		return have, err
	})
	if err != nil {
		return nil, err
	}
	t.Size = from.Size
	size := seedbed.Bytes(t.Size)
	made, err := p.fill(ctx, t, 0, func(ctx context.Context, to string) (string, error) {
		source := p.cfg.qemuSource(rbdOf(roleVolume, spec.From), cmp.Or(spec.At, spec.Snapshot))
		return "", image.WriteRaw(ctx, source, to, func(percent float64) {
			progress(seedbed.Progress{Done: seedbed.Bytes(percent / 100 * float64(size)), Total: size})
		})
	})
	if err != nil {
		return nil, err
	}
	return made, p.dropPoint(ctx, job, spec.CopySource)
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
			if err := from.CheckCopied(p.cfg.Name, spec); err != nil {
				return false, err
			}
			_, err = p.makeVolume(ctx, s, want, parent{rbdOf(roleVolume, spec.From), cmp.Or(spec.At, spec.Snapshot)})
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
