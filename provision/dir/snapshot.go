package dir

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/image"
)

// snapshot is one snapshot inside a volume's file. It is written to the tag before it is taken, so
// that a snapshot that a crash leaves is known to be ours.
type snapshot struct {
	Name    string        `json:"name"`
	Job     seedbed.JobID `json:"job"`
	Created time.Time     `json:"created"`
	Ready   bool          `json:"ready"` // it has been taken
}

func (s snapshot) info() seedbed.SnapshotInfo {
	return seedbed.SnapshotInfo{Name: s.Name, Job: s.Job, Created: s.Created}
}

// find returns the index of a snapshot in the tag, or -1.
func (t *tag) find(name string) int {
	return slices.IndexFunc(t.Snapshots, func(s snapshot) bool { return s.Name == name })
}

// CreateSnapshot implements worker.Snapshotter. The snapshot is inside the qcow2 file: it takes no
// space until the guest writes, is removed with the file, and can only be taken while no domain has
// the file open.
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
	at := have.find(spec.Name)
	switch {
	case at >= 0 && have.Snapshots[at].Job != job:
		return seedbed.SnapshotInfo{}, seedbed.Errorf(seedbed.ErrExists,
			"snapshot %s of volume %s in pool %s exists: choose another name, or remove it first", spec.Name, spec.Volume, p.name)
	case at >= 0 && have.Snapshots[at].Ready:
		return have.Snapshots[at].info(), nil
	case at < 0 && len(have.Snapshots) >= seedbed.MaxSnapshots:
		return seedbed.SnapshotInfo{}, seedbed.Errorf(seedbed.ErrFull,
			"volume %s in pool %s has %d snapshots and can have no more: remove one first (seedbed vm snapshot remove)", spec.Volume, p.name,
			len(have.Snapshots))
	}
	made, err := p.takeSnapshot(ctx, have, at, snapshot{Name: spec.Name, Job: job, Created: time.Now().UTC().Truncate(time.Microsecond)})
	if err != nil {
		return seedbed.SnapshotInfo{}, fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return made.info(), nil
}

// takeSnapshot takes the snapshot at that index of the tag, or a new one if at is -1.
func (p *Pool) takeSnapshot(ctx context.Context, t *tag, at int, s snapshot) (snapshot, error) {
	path := p.file(volumes, t.Name)
	inside, err := image.Describe(ctx, path)
	if err != nil {
		return s, err
	}
	taken := slices.Contains(inside.Snapshots, s.Name)
	if at < 0 {
		if taken {
			return s, seedbed.Errorf(seedbed.ErrConflict, "%s has a snapshot of that name that is not seedbed's: it is not changed", path)
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
		if err := image.TakeSnapshot(ctx, path, s.Name); err != nil {
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
	path := p.file(volumes, t.Name)
	inside, err := image.Describe(ctx, path)
	if err != nil {
		return err
	}
	if slices.Contains(inside.Snapshots, t.Snapshots[at].Name) {
		if err := image.DropSnapshot(ctx, path, t.Snapshots[at].Name); err != nil {
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
	at := have.find(spec.Name)
	switch {
	case at < 0:
		return nil
	case of != "" && have.Snapshots[at].Job != of:
		return seedbed.Errorf(seedbed.ErrConflict, "snapshot %s of volume %s in pool %s was taken by job %s: it is not removed", spec.Name,
			spec.Volume, p.name, have.Snapshots[at].Job)
	}
	if err := p.dropSnapshot(ctx, have, at); err != nil {
		return fmt.Errorf("%s in pool %s: %w", what, p.name, err)
	}
	return nil
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
	var all []seedbed.SnapshotInfo
	for _, s := range have.Snapshots {
		if s.Ready {
			all = append(all, s.info())
		}
	}
	return all, nil
}
