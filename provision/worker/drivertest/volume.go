package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seedbed"
)

// SetTrash makes the pool keep removed volumes for that long; zero removes them at once.
func (p *Pool) SetTrash(keep time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = keep
}

// own finds an instance's volume; nil if it does not exist. The lock is held.
func (p *Pool) own(name string, id seedbed.InstanceID) (*volume, error) {
	v, ok := p.volumes[name]
	if !ok {
		return nil, nil
	}
	if id == "" || v.Instance != id {
		return nil, seedbed.Errorf(seedbed.ErrConflict, "volume %s is not instance %s's", name, id)
	}
	return &v, nil
}

// must is own for a volume that must exist.
func (p *Pool) must(name string, id seedbed.InstanceID) (*volume, error) {
	v, err := p.own(name, id)
	if err == nil && v == nil {
		err = seedbed.Errorf(seedbed.ErrNotFound, "volume %s is not in pool %s", name, p.name)
	}
	return v, err
}

// CreateSnapshot implements worker.Snapshotter.
func (p *Pool) CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	var info seedbed.SnapshotInfo
	err := p.effect(ctx, "CreateSnapshot", func() error {
		if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
			return err
		}
		v, err := p.must(spec.Volume, spec.Instance)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(v.snapshots, func(s seedbed.SnapshotInfo) bool { return s.Name == spec.Name }); i >= 0 {
			if info = v.snapshots[i]; info.Job != job {
				return seedbed.Errorf(seedbed.ErrExists, "snapshot %s of volume %s exists", spec.Name, spec.Volume)
			}
			return nil
		}
		if len(v.snapshots) >= seedbed.MaxSnapshots {
			return seedbed.Errorf(seedbed.ErrFull, "volume %s has %d snapshots and can have no more", spec.Volume, len(v.snapshots))
		}
		info = seedbed.SnapshotInfo{Name: spec.Name, Job: job, Created: time.Now().UTC().Round(time.Microsecond)}
		v.snapshots = append(slices.Clone(v.snapshots), info)
		p.volumes[spec.Volume] = *v
		return nil
	})
	if err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	return info, nil
}

// RemoveSnapshot implements worker.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, of seedbed.JobID) error {
	return p.effect(ctx, "RemoveSnapshot", func() error {
		v, err := p.own(spec.Volume, spec.Instance)
		if v == nil || err != nil {
			return err
		}
		i := slices.IndexFunc(v.snapshots, func(s seedbed.SnapshotInfo) bool { return s.Name == spec.Name })
		if i < 0 {
			return nil
		}
		if of != "" && v.snapshots[i].Job != of {
			return seedbed.Errorf(seedbed.ErrConflict, "snapshot %s of volume %s is another job's", spec.Name, spec.Volume)
		}
		v.snapshots = slices.Delete(slices.Clone(v.snapshots), i, i+1)
		p.volumes[spec.Volume] = *v
		return nil
	})
}

// Snapshots implements worker.Snapshotter.
func (p *Pool) Snapshots(ctx context.Context, name string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.must(name, id)
	if err != nil {
		return nil, err
	}
	return slices.Clone(v.snapshots), ctx.Err()
}

// TrashVolume implements worker.Trash.
func (p *Pool) TrashVolume(ctx context.Context, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error) {
	var kept *seedbed.TrashItem
	err := p.effect(ctx, "TrashVolume", func() error {
		v, err := p.own(name, id)
		if v == nil || err != nil {
			return err
		}
		if err := p.unused(v); err != nil {
			return err
		}
		delete(p.volumes, name)
		if p.keep <= 0 {
			return nil
		}
		p.trashed++
		now := time.Now().UTC()
		kept = &seedbed.TrashItem{Pool: p.name, ID: fmt.Sprintf("t%d", p.trashed), Name: name, State: seedbed.Trashed,
			Instance: v.Instance, Size: v.Size, Removed: now, Expires: now.Add(p.keep)}
		p.trash = append(p.trash, trashed{*kept, *v})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// Trash implements worker.Trash.
func (p *Pool) Trash(ctx context.Context) ([]seedbed.TrashItem, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []seedbed.TrashItem
	for _, t := range p.trash {
		all = append(all, t.TrashItem)
	}
	return all, ctx.Err()
}

// RestoreVolume implements worker.Trash.
func (p *Pool) RestoreVolume(ctx context.Context, id string) (seedbed.VolumeInfo, error) {
	var info seedbed.VolumeInfo
	err := p.effect(ctx, "RestoreVolume", func() error {
		i := slices.IndexFunc(p.trash, func(t trashed) bool { return t.ID == id })
		if i < 0 {
			return seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, p.name)
		}
		v := p.trash[i].volume
		if _, taken := p.volumes[v.Name]; taken {
			return seedbed.Errorf(seedbed.ErrExists, "volume %s exists", v.Name)
		}
		v.Restored = true
		p.trash = slices.Delete(p.trash, i, i+1)
		p.volumes[v.Name] = v
		info = v.VolumeInfo
		return nil
	})
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return info, nil
}

// PurgeVolume implements worker.Trash.
func (p *Pool) PurgeVolume(ctx context.Context, id string, early bool) error {
	return p.effect(ctx, "PurgeVolume", func() error {
		i := slices.IndexFunc(p.trash, func(t trashed) bool { return t.ID == id })
		if i < 0 {
			return nil
		}
		if !early && time.Now().Before(p.trash[i].Expires) {
			return seedbed.Errorf(seedbed.ErrInUse, "%s is kept until %s", id, p.trash[i].Expires)
		}
		p.trash = slices.Delete(p.trash, i, i+1)
		return nil
	})
}

// FlattenVolume implements worker.Flattener.
func (p *Pool) FlattenVolume(ctx context.Context, name string, id seedbed.InstanceID,
	progress func(seedbed.Progress)) (seedbed.VolumeInfo, error) {
	var info seedbed.VolumeInfo
	err := p.effect(ctx, "FlattenVolume", func() error {
		v, err := p.must(name, id)
		if err != nil {
			return err
		}
		if err := p.unused(v); err != nil {
			return err
		}
		report(progress, v.Size/2, v.Size)
		v.flat = true
		p.volumes[name] = *v
		report(progress, v.Size, v.Size)
		info = v.VolumeInfo
		return nil
	})
	if err != nil {
		return seedbed.VolumeInfo{}, err
	}
	return info, nil
}

// StopFlatten implements worker.Flattener.
func (p *Pool) StopFlatten(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.effect(ctx, "StopFlatten", func() error {
		_, err := p.own(name, id)
		return err
	})
}
