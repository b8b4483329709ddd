//go:build ceph

package ceph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
	"seedbed/provision/pooltag"
)

// CreateSnapshot implements worker.Snapshotter. It takes an RBD snapshot of the same name, which
// has what the guest has written to its disk at that moment.
func (p *Pool) CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	what := fmt.Sprintf("take snapshot %s of volume %s", spec.Name, spec.Volume)
	return call(ctx, p, what, rbdOf(roleVolume, spec.Volume), func(ctx context.Context, s *session) (seedbed.SnapshotInfo, error) {
		have, err := p.there(ctx, s, spec.Volume, spec.Instance)
		if err != nil {
			return seedbed.SnapshotInfo{}, err
		}
		at, err := have.FindToTake(p.cfg.Name, spec.Name, job)
		if err != nil {
			return seedbed.SnapshotInfo{}, err
		}
		if at >= 0 && have.Snapshots[at].Ready {
			return have.Snapshots[at].Info(), nil
		}
		made, err := p.snap(s, have, at, have.NewSnapshot(spec, job))
		return made.Info(), err
	})
}

// snap takes the snapshot at that index of the tag, or a new one if at is -1.
func (p *Pool) snap(s *session, t *tag, at int, want pooltag.Snapshot) (made pooltag.Snapshot, err error) {
	err = s.byName(rbdOf(roleVolume, t.Name), func(img *rbd.Image) error {
		made, err = p.snapOpen(s, img, t, at, want)
		return err
	})
	return made, err
}

// snapOpen is like snap for the volume's open image.
func (p *Pool) snapOpen(s *session, img *rbd.Image, t *tag, at int, want pooltag.Snapshot) (pooltag.Snapshot, error) {
	rbdName := rbdOf(roleVolume, t.Name)
	inside, err := snapshotNames(img)
	if err != nil {
		return want, err
	}
	taken := slices.Contains(inside, want.Name)
	if at < 0 {
		if taken {
			return want, seedbed.Errorf(seedbed.ErrConflict, "%s/%s has a snapshot %s that is not seedbed's: it is not changed", p.cfg.Pool, rbdName,
				want.Name)
		}
		t.Snapshots = append(t.Snapshots, want)
		at = len(t.Snapshots) - 1
		if err := s.setTag(rbdName, *t); err != nil {
			return want, err
		}
	}
	if !taken {
		if _, err := img.CreateSnapshot(want.Name); err != nil {
			t.Snapshots = slices.Delete(t.Snapshots, at, at+1)
			return want, errors.Join(err, ignore(img.GetSnapshot(want.Name).Remove(), enoent), s.setTag(rbdName, *t))
		}
	}
	t.Snapshots[at].Ready = true
	return t.Snapshots[at], s.setTag(rbdName, *t)
}

func snapshotNames(img *rbd.Image) ([]string, error) {
	all, err := img.GetSnapshotNames()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names, nil
}

// RemoveSnapshot implements worker.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, of seedbed.JobID) error {
	if err := seedbed.CheckName("volume", spec.Volume); err != nil {
		return err
	}
	rbdName := rbdOf(roleVolume, spec.Volume)
	return p.do(
		ctx,
		fmt.Sprintf("remove snapshot %s of volume %s", spec.Name, spec.Volume),
		rbdName,
		func(ctx context.Context, s *session) error {
			have, err := p.own(ctx, s, spec.Volume, spec.Instance)
			if have == nil || err != nil {
				return err
			}
			at, err := have.FindToRemove(p.cfg.Name, spec.Name, of)
			if at < 0 || err != nil {
				return err
			}
			err = s.byName(rbdName, func(img *rbd.Image) error {
				return ignore(img.GetSnapshot(spec.Name).Remove(), enoent)
			})
			if err != nil {
				return err
			}
			have.Snapshots = slices.Delete(have.Snapshots, at, at+1)
			return s.setTag(rbdName, *have)
		},
	)
}

// RestoreSnapshot implements worker.Snapshotter. librbd gives the RBD image the size that it had at the
// snapshot as well, so it grows again. It would take the lock from a client that has the image open, so
// it waits until none has.
func (p *Pool) RestoreSnapshot(ctx context.Context, spec seedbed.SnapshotSpec) error {
	rbdName := rbdOf(roleVolume, spec.Volume)
	what := fmt.Sprintf("restore snapshot %s of volume %s", spec.Name, spec.Volume)
	return p.do(ctx, what, rbdName, func(ctx context.Context, s *session) error {
		have, err := p.there(ctx, s, spec.Volume, spec.Instance)
		if err != nil {
			return err
		}
		if err := have.FindToRestore(p.cfg.Name, spec.Name); err != nil {
			return err
		}
		if err := p.cfg.Mapper.Free(p.cfg.Name, spec.Volume); err != nil {
			return err
		}
		id, err := s.idOf(rbdName)
		if err != nil {
			return err
		}
		err = p.unused(ctx, s, rbdName, func() error {
			if user, err := s.watcherOf(id); err != nil || user.Addr != "" {
				return cmp.Or(err, error(ebusy))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.sameParent(s, id, spec); err != nil {
			return err
		}
		return s.byID(id, func(img *rbd.Image) error {
			if err := img.GetSnapshot(spec.Name).Rollback(); err != nil {
				return err
			}
			return img.Resize(uint64(have.Size))
		})
	})
}

// sameParent returns ErrConflict for a snapshot that reads from an image while its volume no longer does:
// librbd brings back a volume's own data, but not its parent.
func (p *Pool) sameParent(s *session, id string, spec seedbed.SnapshotSpec) error {
	var clone [2]bool
	for i, at := range []string{rbd.NoSnapshot, spec.Name} {
		img, err := rbd.OpenImageByIdReadOnly(s.io, id, at)
		if is(err, enoent) {
			return seedbed.Errorf(seedbed.ErrNotFound, "RBD image %s/%s has no snapshot %s", p.cfg.Pool, rbdOf(roleVolume, spec.Volume), spec.Name)
		}
		if err != nil {
			return err
		}
		_, err = img.GetParent()
		if clone[i] = err == nil; errors.Join(ignore(err, enoent), s.closeImage(img)) != nil {
			return err
		}
	}
	if clone[1] && !clone[0] {
		return seedbed.Errorf(seedbed.ErrConflict, "snapshot %s of volume %s in pool %s is older than the volume's independence of its image "+
			"(seedbed vm flatten), and reads from that: read it with rbd export %s/%s@%s", spec.Name, spec.Volume, p.cfg.Name, p.cfg.Pool,
			rbdOf(roleVolume, spec.Volume), spec.Name)
	}
	return nil
}

// Snapshots implements worker.Snapshotter.
func (p *Pool) Snapshots(ctx context.Context, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	return call(
		ctx,
		p,
		"list the snapshots of volume "+volume,
		rbdOf(roleVolume, volume),
		func(ctx context.Context, s *session) ([]seedbed.SnapshotInfo, error) {
			have, err := p.there(ctx, s, volume, id)
			if err != nil {
				return nil, err
			}
			return have.Taken(), nil
		},
	)
}

// onlyOurs returns ErrInUse for a volume that has a snapshot which is not in its tag.
func (p *Pool) onlyOurs(s *session, h header, t *tag) error {
	if h.snapshots == 0 {
		return nil
	}
	return s.byID(h.id, func(img *rbd.Image) error { return p.allOurs(img, t) })
}

func (p *Pool) allOurs(img *rbd.Image, t *tag) error {
	inside, err := snapshotNames(img)
	if err != nil {
		return err
	}
	for _, name := range inside {
		if t.Find(name) < 0 {
			return seedbed.Errorf(seedbed.ErrInUse,
				"volume %s in pool %s has snapshots that are not seedbed's, such as %s: remove them, with rbd snap rm", t.Name, p.cfg.Name, name)
		}
	}
	return nil
}

// dropSnapshots removes the snapshots of a volume that is to be removed, if all of them are ours.
func (p *Pool) dropSnapshots(s *session, h header, t *tag) error {
	if h.snapshots == 0 {
		return nil
	}
	return s.byID(h.id, func(img *rbd.Image) error {
		if err := p.allOurs(img, t); err != nil {
			return err
		}
		for _, snap := range t.Snapshots {
			if err := ignore(img.GetSnapshot(snap.Name).Remove(), enoent); err != nil {
				return err
			}
		}
		return nil
	})
}
