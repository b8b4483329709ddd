//go:build ceph

package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ceph/go-ceph/rbd"

	"seedbed"
)

// CreateSnapshot implements worker.Snapshotter. It takes an RBD snapshot of the same name, which
// has what the guest has written to its disk at that moment.
func (p *Pool) CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	what := fmt.Sprintf("take snapshot %s of volume %s", spec.Name, spec.Volume)
	return call(ctx, p, what, roleVolume.rbdName(spec.Volume), func(ctx context.Context, s *session) (seedbed.SnapshotInfo, error) {
		have, err := p.there(ctx, s, spec.Volume, spec.Instance)
		if err != nil {
			return seedbed.SnapshotInfo{}, err
		}
		at := have.find(spec.Name)
		switch {
		case at >= 0 && have.Snapshots[at].Job != job:
			return seedbed.SnapshotInfo{}, seedbed.Errorf(seedbed.ErrExists,
				"snapshot %s of volume %s in pool %s exists: choose another name, or remove it first", spec.Name, spec.Volume, p.cfg.Name)
		case at >= 0 && have.Snapshots[at].Ready:
			return have.Snapshots[at].info(), nil
		case at < 0 && len(have.Snapshots) >= seedbed.MaxSnapshots:
			return seedbed.SnapshotInfo{}, seedbed.Errorf(seedbed.ErrFull,
				"volume %s in pool %s has %d snapshots and can have no more: remove one first (seedbed vm snapshot remove)", spec.Volume, p.cfg.Name,
				len(have.Snapshots))
		}
		made, err := p.snap(s, have, at, volumeSnapshot{Name: spec.Name, Job: job, Created: time.Now().UTC().Truncate(time.Microsecond)})
		return made.info(), err
	})
}

// snap takes the snapshot at that index of the tag, or a new one if at is -1.
func (p *Pool) snap(s *session, t *tag, at int, want volumeSnapshot) (made volumeSnapshot, err error) {
	err = s.byName(roleVolume.rbdName(t.Name), func(img *rbd.Image) error {
		made, err = p.snapOpen(s, img, t, at, want)
		return err
	})
	return made, err
}

// snapOpen is like snap for the volume's open image.
func (p *Pool) snapOpen(s *session, img *rbd.Image, t *tag, at int, want volumeSnapshot) (volumeSnapshot, error) {
	rbdName := roleVolume.rbdName(t.Name)
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
	rbdName := roleVolume.rbdName(spec.Volume)
	return p.do(
		ctx,
		fmt.Sprintf("remove snapshot %s of volume %s", spec.Name, spec.Volume),
		rbdName,
		func(ctx context.Context, s *session) error {
			have, err := p.own(ctx, s, spec.Volume, spec.Instance)
			if have == nil || err != nil {
				return err
			}
			at := have.find(spec.Name)
			switch {
			case at < 0:
				return nil
			case of != "" && have.Snapshots[at].Job != of:
				return seedbed.Errorf(seedbed.ErrConflict, "snapshot %s of volume %s in pool %s was taken by job %s: it is not removed", spec.Name,
					spec.Volume, p.cfg.Name, have.Snapshots[at].Job)
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
		roleVolume.rbdName(volume),
		func(ctx context.Context, s *session) ([]seedbed.SnapshotInfo, error) {
			have, err := p.there(ctx, s, volume, id)
			if err != nil {
				return nil, err
			}
			var all []seedbed.SnapshotInfo
			for _, snap := range have.Snapshots {
				if snap.Ready {
					all = append(all, snap.info())
				}
			}
			return all, nil
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
		if t.find(name) < 0 {
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
