package dir

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/pooltag"
)

// CreateSnapshot implements worker.Snapshotter. The snapshot is inside the qcow2 file: it takes no
// space until the guest writes, and is removed with the file. A domain that has the file open takes it
// by BeginSnapshot and EndSnapshot.
func (p *Pool) CreateSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (seedbed.SnapshotInfo, error) {
	if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	what := fmt.Sprintf("take snapshot %s of volume %s", spec.Name, spec.Volume)
	if err := p.enter(ctx); err != nil {
		return seedbed.SnapshotInfo{}, fmt.Errorf("%s: %w", what, err)
	}
	defer p.leave()
	have, err := p.there(spec.Volume, spec.Instance)
	if err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	at, err := have.FindToTake(p.name, spec.Name, job)
	if err != nil {
		return seedbed.SnapshotInfo{}, err
	}
	if at >= 0 && have.Snapshots[at].Ready {
		return have.Snapshots[at].Info(), nil
	}
	made, err := p.takeSnapshot(ctx, have, at, have.NewSnapshot(spec, job))
	if err != nil {
		return seedbed.SnapshotInfo{}, fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return made.Info(), nil
}

// BeginSnapshot implements worker.FileSnapshotter.
func (p *Pool) BeginSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) (disk seedbed.Disk, taken bool, err error) {
	if err := seedbed.CheckName("snapshot", spec.Name); err != nil {
		return disk, false, err
	}
	what := fmt.Sprintf("take snapshot %s of volume %s", spec.Name, spec.Volume)
	if err := p.enter(ctx); err != nil {
		return disk, false, fmt.Errorf("%s: %w", what, err)
	}
	defer p.leave()
	have, err := p.there(spec.Volume, spec.Instance)
	if err != nil {
		return disk, false, err
	}
	at, err := have.FindToTake(p.name, spec.Name, job)
	if err != nil {
		return disk, false, err
	}
	if taken, err = p.begin(have, at, have.NewSnapshot(spec, job)); err != nil {
		return disk, false, fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return p.volume(have).Disk, taken, nil
}

// begin writes the snapshot to the tag, at that index or as a new one if at is -1, unless the file has it.
func (p *Pool) begin(t *tag, at int, s pooltag.Snapshot) (taken bool, err error) {
	path := p.file(volumes, t.Name)
	inside, err := p.contents(t).Header()
	if err != nil {
		return false, err
	}
	switch taken = slices.Contains(inside.Snapshots, s.Name); {
	case taken && at < 0:
		return false, foreignSnapshot(path)
	case taken:
		return true, nil
	}
	if err := p.need(cloneRoom); err != nil {
		return false, err
	}
	if at < 0 {
		t.Snapshots = append(t.Snapshots, s)
	} else {
		t.Snapshots[at] = s // an earlier call has begun it, at an earlier time
	}
	return false, p.room(p.writeTag(path+tagSuffix, *t))
}

// foreignSnapshot is the error of a snapshot inside a file that is not in the tag.
func foreignSnapshot(path string) error {
	return seedbed.Errorf(seedbed.ErrConflict, "%s has a snapshot of that name that is not seedbed's: it is not changed", path)
}

// EndSnapshot implements worker.FileSnapshotter.
func (p *Pool) EndSnapshot(ctx context.Context, job seedbed.JobID, spec seedbed.SnapshotSpec) error {
	what := fmt.Sprintf("end snapshot %s of volume %s", spec.Name, spec.Volume)
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer p.leave()
	have, err := p.there(spec.Volume, spec.Instance)
	if err != nil {
		return err
	}
	at, err := have.FindToTake(p.name, spec.Name, job)
	if err != nil {
		return err
	}
	inside, err := p.contents(have).Header()
	if err == nil && (at < 0 || !slices.Contains(inside.Snapshots, spec.Name)) {
		err = seedbed.Errorf(seedbed.ErrNotFound, "its file has no snapshot of that name")
	}
	if err == nil {
		have.Snapshots[at].Ready = true
		err = p.room(p.writeTag(p.file(volumes, have.Name)+tagSuffix, *have))
	}
	if err != nil {
		return fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return nil
}

// takeSnapshot takes the snapshot at that index of the tag, or a new one if at is -1.
func (p *Pool) takeSnapshot(ctx context.Context, t *tag, at int, s pooltag.Snapshot) (pooltag.Snapshot, error) {
	path, file := p.file(volumes, t.Name), p.contents(t)
	inside, err := file.Header()
	if err != nil {
		return s, err
	}
	taken := slices.Contains(inside.Snapshots, s.Name)
	if at < 0 {
		if taken {
			return s, foreignSnapshot(path)
		}
		t.Snapshots = append(t.Snapshots, s)
		at = len(t.Snapshots) - 1
		if err := p.writeTag(path+tagSuffix, *t); err != nil {
			return s, p.room(err)
		}
	}
	if !taken {
		if err := p.need(cloneRoom); err != nil {
			return s, p.forgetSnapshot(t, at, err)
		}
		if err := file.TakeSnapshot(ctx, s.Name); err != nil {
			return s, p.forgetSnapshot(t, at, p.room(err))
		}
	}
	t.Snapshots[at].Ready = true
	if err := syncPath(path); err != nil {
		return s, err
	}
	return t.Snapshots[at], p.room(p.writeTag(path+tagSuffix, *t))
}

// forgetSnapshot removes a snapshot from the tag that could not be taken because of why. It also
// removes the snapshot from the file, where an interrupted call may have left it.
func (p *Pool) forgetSnapshot(t *tag, at int, why error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.dropSnapshot(ctx, t, at); err != nil {
		p.log.Warn("unfinished snapshot not removed yet", "pool", p.name, "volume", t.Name, "snapshot", t.Snapshots[at].Name, "err", err)
	}
	return why
}

// dropSnapshot removes a snapshot from the file and then from the tag.
func (p *Pool) dropSnapshot(ctx context.Context, t *tag, at int) error {
	path, file := p.file(volumes, t.Name), p.contents(t)
	inside, err := file.Header()
	if err != nil {
		return err
	}
	if slices.Contains(inside.Snapshots, t.Snapshots[at].Name) {
		if err := file.DropSnapshot(ctx, t.Snapshots[at].Name); err != nil {
			return p.room(err)
		}
		if err := syncPath(path); err != nil {
			return err
		}
	}
	t.Snapshots = slices.Delete(t.Snapshots, at, at+1)
	return p.room(p.writeTag(path+tagSuffix, *t))
}

// RemoveSnapshot implements worker.Snapshotter.
func (p *Pool) RemoveSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, of seedbed.JobID) error {
	if err := seedbed.CheckName("volume", spec.Volume); err != nil {
		return err
	}
	what := fmt.Sprintf("remove snapshot %s of volume %s", spec.Name, spec.Volume)
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer p.leave()
	have, err := p.own(spec.Volume, spec.Instance)
	if have == nil || err != nil {
		return err
	}
	at, err := have.FindToRemove(p.name, spec.Name, of)
	if at < 0 || err != nil {
		return err
	}
	if err := p.dropSnapshot(ctx, have, at); err != nil {
		return fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return nil
}

// RestoreSnapshot implements worker.Snapshotter. QEMU's own lock refuses a file that a domain has open.
// The tool gives the file the size that it had at the snapshot as well, so it grows again.
func (p *Pool) RestoreSnapshot(ctx context.Context, spec seedbed.SnapshotSpec) error {
	what := fmt.Sprintf("restore snapshot %s of volume %s", spec.Name, spec.Volume)
	if err := p.enter(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer p.leave()
	have, err := p.there(spec.Volume, spec.Instance)
	if err != nil {
		return err
	}
	if err := have.FindToRestore(p.name, spec.Name); err != nil {
		return err
	}
	if err := p.restore(ctx, have, spec.Name); err != nil {
		return fmt.Errorf("%s in pool %s: %w", what, p.name, p.room(err))
	}
	return nil
}

func (p *Pool) restore(ctx context.Context, t *tag, snapshot string) error {
	if err := p.mapper.Free(p.name, t.Name); err != nil {
		return err
	}
	path, file := p.file(volumes, t.Name), p.contents(t)
	inside, err := file.Header()
	if err != nil {
		return err
	}
	if !slices.Contains(inside.Snapshots, snapshot) {
		return seedbed.Errorf(seedbed.ErrNotFound, "its file has no snapshot of that name")
	}
	if err := p.need(cloneRoom); err != nil {
		return err
	}
	if err := file.RestoreSnapshot(ctx, snapshot); err != nil {
		return err
	}
	if err := file.Resize(ctx, seedbed.Bytes(t.Size)); err != nil {
		return err
	}
	return syncPath(path)
}

// Snapshots implements worker.Snapshotter.
func (p *Pool) Snapshots(ctx context.Context, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	if err := p.enter(ctx); err != nil {
		return nil, fmt.Errorf("list the snapshots of volume %s: %w", volume, err)
	}
	defer p.leave()
	have, err := p.there(volume, id)
	if err != nil {
		return nil, err
	}
	return have.Taken(), nil
}
