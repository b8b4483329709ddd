package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"seedbed"
	"seedbed/provision/effects"
)

// forgetTime limits the removal of what a call that failed has left.
const forgetTime = time.Minute

// insides takes and removes snapshots of volumes that domains may have open.
type insides struct {
	pool       func(name string, id seedbed.InstanceID) (Pool, error)
	hypervisor DiskSnapshotter
	log        *slog.Logger
}

// HandleOpenSnapshots adds the effects on snapshots of volumes that domains may have open. pool returns the pool of that name for a call on
// a volume of that instance.
func HandleOpenSnapshots(
	h effects.Handlers, hypervisor DiskSnapshotter, log *slog.Logger, pool func(string, seedbed.InstanceID) (Pool, error),
) {
	s := &insides{pool: pool, hypervisor: hypervisor, log: log}
	effects.SnapshotOpen.Handle(h, func(ctx context.Context, c seedbed.Call, a effects.OpenSnapshots) error {
		return s.take(ctx, c.Job, a)
	})
	effects.RemoveSnapshot.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.SnapshotRef) error { return s.remove(ctx, a) })
}

// take has a domain take snapshots of volumes that it has open, at one moment. Each is in its pool's record before it is taken.
func (s *insides) take(ctx context.Context, job seedbed.JobID, a effects.OpenSnapshots) error {
	if err := checkInstance(a.Domain); err != nil {
		return err
	}
	all, again, err := s.begin(ctx, job, a)
	if err == nil && again { // what an earlier call has taken is of another moment
		if err = s.forget(ctx, job, a); err == nil {
			all, _, err = s.begin(ctx, job, a)
		}
	}
	if err == nil {
		err = s.hypervisor.SnapshotDisks(ctx, a.Domain, all)
	}
	if err != nil {
		forgetting, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTime)
		defer cancel()
		if left := s.forget(forgetting, job, a); left != nil {
			s.log.Warn("snapshots that were not taken stay in the records until their job removes them", "job", job, "err", left)
		}
		return err
	}
	for _, spec := range a.Snapshots {
		pool, err := s.files(spec)
		if err == nil {
			err = pool.EndSnapshot(ctx, job, spec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files returns the pool of a snapshot that is taken inside a file.
func (s *insides) files(spec seedbed.SnapshotSpec) (FileSnapshotter, error) {
	pool, err := s.pool(spec.Pool, spec.Instance)
	if err != nil {
		return nil, err
	}
	files, ok := pool.(FileSnapshotter)
	if !ok {
		return nil, seedbed.Errorf(seedbed.ErrInvalid, "pool %s has no snapshots inside files, which a domain takes", spec.Pool)
	}
	return files, nil
}

// begin records the snapshots that are to be taken. again is set if one has been taken already.
func (s *insides) begin(
	ctx context.Context, job seedbed.JobID, a effects.OpenSnapshots,
) (all []seedbed.DiskSnapshot, again bool, err error) {
	for _, spec := range a.Snapshots {
		pool, err := s.files(spec)
		if err != nil {
			return nil, false, err
		}
		disk, taken, err := pool.BeginSnapshot(ctx, job, spec)
		if err != nil {
			return nil, false, err
		}
		all, again = append(all, seedbed.DiskSnapshot{Disk: disk, Name: spec.Name}), again || taken
	}
	return all, again, nil
}

// forget removes the snapshots as far as the job has taken or recorded them.
func (s *insides) forget(ctx context.Context, job seedbed.JobID, a effects.OpenSnapshots) error {
	var failed []error
	for _, spec := range a.Snapshots {
		err := s.remove(ctx, effects.SnapshotRef{SnapshotSpec: spec, Of: job, Domain: a.Domain})
		if !errors.Is(err, seedbed.ErrConflict) { // which is that of another job
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// remove removes a snapshot of a volume. A domain that has the file open removes it from there first.
func (s *insides) remove(ctx context.Context, a effects.SnapshotRef) error {
	pool, err := s.pool(a.Pool, a.Instance)
	domain := cmp.Or(a.Domain, a.Instance)
	if err == nil {
		err = checkInstance(domain)
	}
	if err != nil {
		return err
	}
	err = pool.RemoveSnapshot(ctx, a.SnapshotSpec, a.Of)
	if _, files := pool.(FileSnapshotter); !files || !errors.Is(err, seedbed.ErrInUse) {
		return err
	}
	info, err := pool.Volume(ctx, a.Volume, a.Instance)
	if err == nil {
		err = s.hypervisor.DropDiskSnapshot(ctx, domain, seedbed.DiskSnapshot{Disk: info.Disk, Name: a.Name})
	}
	if err != nil {
		return err
	}
	return pool.RemoveSnapshot(ctx, a.SnapshotSpec, a.Of)
}
