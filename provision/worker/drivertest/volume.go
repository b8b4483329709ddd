package drivertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/pooltag"
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
	if err := v.CheckOwner(p.name, id); err != nil {
		return nil, err
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

// CopyVolume implements worker.Copier.
func (p *Pool) CopyVolume(
	ctx context.Context, job seedbed.JobID, spec seedbed.VolumeCopy, progress func(seedbed.Progress),
) (seedbed.VolumeInfo, error) {
	return effect(ctx, p, "CopyVolume", func() (info seedbed.VolumeInfo, err error) {
		if err := pooltag.CheckCopy(spec); err != nil {
			return info, err
		}
		made := volume{Tag: pooltag.Tag{Name: spec.Name, Job: job, Instance: spec.Instance, Project: spec.Project, From: spec.From, Flat: true,
			Size: int64(spec.Size)}}
		if have, ok := p.volumes[spec.Name]; ok {
			return p.info(&have), have.CheckSame(p.name, made.Tag)
		}
		from, err := p.must(spec.From, spec.Of)
		if err == nil {
			err = from.CheckCopied(p.name, spec)
		}
		if err == nil {
			err = p.unused(from)
		}
		if err == nil {
			err = p.room()
		}
		if err != nil {
			return info, err
		}
		report(progress, spec.Size/2, spec.Size)
		report(progress, spec.Size, spec.Size)
		made.content.now = from.content.of(spec.At)
		p.volumes[spec.Name] = made
		return p.info(&made), nil
	})
}

// CopyOf returns the name of the volume that a volume is a copy of; empty if it is none.
func (p *Pool) CopyOf(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[name].From
}

// CreateSnapshot implements worker.Snapshotter.
func (p *Pool) CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	return effect(ctx, p, "CreateSnapshot", func() (info seedbed.SnapshotInfo, err error) {
		if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
			return info, err
		}
		v, err := p.must(spec.Volume, spec.Instance)
		if err != nil {
			return info, err
		}
		at, err := v.FindToTake(p.name, spec.Name, job)
		if err != nil {
			return info, err
		}
		if at >= 0 && v.Snapshots[at].Ready {
			return v.Snapshots[at].Info(), nil
		}
		if err := p.closed(v); err != nil {
			return info, err
		}
		p.record(v, at, v.NewSnapshot(spec, job), true)
		v.content.keep(spec.Name)
		p.volumes[spec.Volume] = *v
		return v.Snapshots[v.Find(spec.Name)].Info(), nil
	})
}

// record puts a snapshot into a volume's tag, at that index, or as a new one if that is -1.
func (p *Pool) record(v *volume, at int, s pooltag.Snapshot, ready bool) {
	s.Ready = ready
	v.Snapshots = slices.Clone(v.Snapshots)
	if at < 0 {
		v.Snapshots = append(v.Snapshots, s)
	} else {
		v.Snapshots[at] = s
	}
	p.volumes[v.Name] = *v
}

// closed returns ErrInUse if a domain has a volume open as a file, as QEMU's lock has it.
func (p *Pool) closed(v *volume) error {
	for _, h := range p.openers {
		if !p.block && h.opens(p.source(v.Name)) {
			return seedbed.Errorf(seedbed.ErrInUse, "a domain has volume %s open", v.Name)
		}
	}
	return nil
}

// BeginSnapshot implements worker.FileSnapshotter.
func (p *Pool) BeginSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (disk seedbed.Disk, taken bool, err error) {
	err = p.effect(ctx, "BeginSnapshot", func() error {
		if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
			return err
		}
		v, err := p.must(spec.Volume, spec.Instance)
		if err != nil {
			return err
		}
		at, err := v.FindToTake(p.name, spec.Name, job)
		if err == nil {
			err = p.room()
		}
		if err != nil {
			return err
		}
		disk = p.info(v).Disk
		if _, taken = v.content.at[spec.Name]; !taken {
			p.record(v, at, v.NewSnapshot(spec, job), false)
		}
		return nil
	})
	return disk, taken, err
}

// EndSnapshot implements worker.FileSnapshotter.
func (p *Pool) EndSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) error {
	return p.effect(ctx, "EndSnapshot", func() error {
		v, err := p.must(spec.Volume, spec.Instance)
		if err != nil {
			return err
		}
		at, err := v.FindToTake(p.name, spec.Name, job)
		if err != nil {
			return err
		}
		if _, taken := v.content.at[spec.Name]; at < 0 || !taken {
			return seedbed.Errorf(seedbed.ErrNotFound, "volume %s has no snapshot %s", spec.Volume, spec.Name)
		}
		p.record(v, at, v.Snapshots[at], true)
		return nil
	})
}

// inside changes the content of the volume at a source, as the domain that has it open does.
func inside(pools []*Pool, source string, change func(*content)) {
	for _, p := range pools {
		p.mu.Lock()
		for name, v := range p.volumes {
			if p.source(name) == source && !p.block {
				change(&v.content)
				p.volumes[name] = v
			}
		}
		p.mu.Unlock()
	}
}

// RemoveSnapshot implements worker.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, of seedbed.JobID) error {
	return p.effect(ctx, "RemoveSnapshot", func() error {
		v, err := p.own(spec.Volume, spec.Instance)
		if v == nil || err != nil {
			return err
		}
		at, err := v.FindToRemove(p.name, spec.Name, of)
		if at < 0 || err != nil {
			return err
		}
		if _, taken := v.content.at[spec.Name]; taken {
			if err := p.closed(v); err != nil {
				return err
			}
			v.content.drop(spec.Name)
		}
		v.Snapshots = slices.Delete(slices.Clone(v.Snapshots), at, at+1)
		p.volumes[spec.Volume] = *v
		return nil
	})
}

// RestoreSnapshot implements worker.Snapshotter.
func (p *Pool) RestoreSnapshot(ctx context.Context, spec seedbed.SnapshotSpec) error {
	return p.effect(ctx, "RestoreSnapshot", func() error {
		if err := seedbed.CheckName("volume", spec.Volume); err != nil {
			return err
		}
		v, err := p.must(spec.Volume, spec.Instance)
		if err != nil {
			return err
		}
		if err := v.FindToRestore(p.name, spec.Name); err != nil {
			return err
		}
		if err := p.unused(v); err != nil {
			return err
		}
		v.content.now = v.content.at[spec.Name]
		p.volumes[spec.Volume] = *v
		return nil
	})
}

// content is what tests have written to a volume, and what they had written at each of its snapshots.
type content struct {
	now string
	at  map[string]string
}

// of returns what they had written at a snapshot, or what they have if at is empty.
func (c *content) of(at string) string {
	if at == "" {
		return c.now
	}
	return c.at[at]
}

func (c *content) keep(snapshot string) {
	at := maps.Clone(c.at)
	if at == nil {
		at = map[string]string{}
	}
	at[snapshot], c.at = c.now, at
}

func (c *content) drop(snapshot string) {
	c.at = maps.Clone(c.at)
	delete(c.at, snapshot)
}

// Write writes to a volume as its guest would. The volume must exist.
func (p *Pool) Write(volume, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.volumes[volume]
	v.content.now = what
	p.volumes[volume] = v
}

// Read returns what was last written to a volume.
func (p *Pool) Read(volume string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[volume].content.now
}

// Snapshots implements worker.Snapshotter.
func (p *Pool) Snapshots(ctx context.Context, name string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.must(name, id)
	if err != nil {
		return nil, err
	}
	return v.Taken(), ctx.Err()
}

// TrashVolume implements worker.Trash.
func (p *Pool) TrashVolume(ctx context.Context, name string, id seedbed.InstanceID) (*seedbed.TrashItem, error) {
	return effect(ctx, p, "TrashVolume", func() (*seedbed.TrashItem, error) {
		v, err := p.own(name, id)
		if v == nil || err != nil {
			return nil, err
		}
		if err := p.unused(v); err != nil {
			return nil, err
		}
		delete(p.volumes, name)
		if p.keep <= 0 {
			return nil, nil
		}
		p.trashed++
		v.Tag = v.Trashed(fmt.Sprintf("t%d", p.trashed), p.keep)
		p.trash = append(p.trash, *v)
		item := v.TrashItem(p.name, v.Trash.ID)
		return &item, nil
	})
}

// Trash implements worker.Trash.
func (p *Pool) Trash(ctx context.Context) ([]seedbed.TrashItem, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []seedbed.TrashItem
	for _, v := range p.trash {
		all = append(all, v.TrashItem(p.name, v.Trash.ID))
	}
	return all, ctx.Err()
}

// inTrash returns the index of an item in the trash, or -1. The lock is held.
func (p *Pool) inTrash(id string) int {
	return slices.IndexFunc(p.trash, func(v volume) bool { return v.Trash.ID == id })
}

// RestoreVolume implements worker.Trash.
func (p *Pool) RestoreVolume(ctx context.Context, id string) (seedbed.VolumeInfo, error) {
	return effect(ctx, p, "RestoreVolume", func() (info seedbed.VolumeInfo, err error) {
		i := p.inTrash(id)
		if i < 0 {
			return info, seedbed.Errorf(seedbed.ErrNotFound, "%q is not in the trash of pool %s", id, p.name)
		}
		v := p.trash[i]
		if _, taken := p.volumes[v.Name]; taken {
			return info, seedbed.Errorf(seedbed.ErrExists, "volume %s exists", v.Name)
		}
		p.trash = slices.Delete(p.trash, i, i+1)
		p.volumes[v.Name] = v
		return p.info(&v), nil
	})
}

// PurgeVolume implements worker.Trash.
func (p *Pool) PurgeVolume(ctx context.Context, id string, early bool) error {
	return p.effect(ctx, "PurgeVolume", func() error {
		i := p.inTrash(id)
		if i < 0 {
			return nil
		}
		if !early {
			if err := p.trash[i].CheckExpired(p.name, id); err != nil {
				return err
			}
		}
		p.trash = slices.Delete(p.trash, i, i+1)
		return nil
	})
}

// FlattenVolume implements worker.Flattener.
func (p *Pool) FlattenVolume(ctx context.Context, name string, id seedbed.InstanceID,
	progress func(seedbed.Progress)) (seedbed.VolumeInfo, error) {
	return effect(ctx, p, "FlattenVolume", func() (info seedbed.VolumeInfo, err error) {
		v, err := p.must(name, id)
		if err != nil {
			return info, err
		}
		if err := p.unused(v); err != nil {
			return info, err
		}
		size := seedbed.Bytes(v.Size)
		report(progress, size/2, size)
		v.Flat = true
		p.volumes[name] = *v
		report(progress, size, size)
		return p.info(v), nil
	})
}

// StopFlatten implements worker.Flattener.
func (p *Pool) StopFlatten(ctx context.Context, name string, id seedbed.InstanceID) error {
	return p.effect(ctx, "StopFlatten", func() error {
		_, err := p.own(name, id)
		return err
	})
}
