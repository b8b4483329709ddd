//go:build ceph

package ceph

import (
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
		made, err := p.snap(s, have, at, pooltag.NewSnapshot(spec.Name, job))
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
