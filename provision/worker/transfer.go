package worker

import (
	"context"
	"errors"
	"fmt"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/effects"
)

// Transferable is a pool between which and another one volumes are copied.
type Transferable interface {
	Archiver
	Snapshotter
}

// Transfer makes a volume of the pool to with the content of one of the pool from, and compares the two. It is for pools as
// Copier.CopyVolume is within one: a second call of the same job continues the first, and after an error the same may be left.
func Transfer(
	ctx context.Context, job seedbed.JobID, from, to Transferable, a seedbed.VolumeCopy, progress func(seedbed.Progress),
) (info seedbed.VolumeInfo, err error) {
	if err := a.CopySource.Check(); err != nil {
		return info, err
	}
	src, err := from.OpenVolume(ctx, job, a.CopySource)
	if err != nil {
		return info, err
	}
	defer func() {
		if src != nil {
			err = errors.Join(err, src.Close())
		}
	}()
	if a.Size < src.Size() {
		return info, seedbed.Errorf(seedbed.ErrInvalid, "size %s of volume %s is below that of %s, which has %s", a.Size, a.Name, a.From,
			src.Size())
	}
	part := func(nth seedbed.Bytes) func(seedbed.Progress) {
		return func(p seedbed.Progress) {
			if progress != nil {
				progress(seedbed.Progress{Done: nth*p.Total + p.Done, Total: 2 * p.Total})
			}
		}
	}
	info, err = to.FillVolume(ctx, job, a.VolumeSpec, a.FromPool+"/"+a.From, func(ctx context.Context, sink backup.Sink) error {
		return backup.Copy(ctx, src, sink, part(0))
	})
	if err != nil {
		return info, err
	}
	made := seedbed.CopySource{From: a.Name, Of: a.Instance, Snapshot: checkPoint}
	err = compare(ctx, job, src, to, made, part(1))
	err = errors.Join(err, src.Close())
	if src = nil; err != nil {
		return info, fmt.Errorf("compare volume %s with %s: %w", a.Name, a.From, err)
	}
	if err := endReading(ctx, job, to, made); err != nil {
		return info, err
	}
	return info, endReading(ctx, job, from, a.CopySource)
}

// checkPoint is the name of the snapshot at which a copy is read to be compared.
const checkPoint = "compare"

// compare compares a volume with what it is a copy of.
func compare(
	ctx context.Context, job seedbed.JobID, src backup.Source, to Archiver, made seedbed.CopySource, progress func(seedbed.Progress),
) error {
	copied, err := to.OpenVolume(ctx, job, made)
	if err != nil {
		return err
	}
	return errors.Join(backup.Compare(ctx, src, copied, progress), copied.Close())
}

// endReading removes the snapshot that was taken to read a volume.
func endReading(ctx context.Context, job seedbed.JobID, p Snapshotter, s seedbed.CopySource) error {
	if s.At != "" {
		return nil
	}
	return p.RemoveSnapshot(ctx, seedbed.SnapshotSpec{Volume: s.From, Instance: s.Of, Name: s.Snapshot}, job)
}

// copyVolume makes a volume a copy of another one, of its own pool or of another pool of this host.
func (s *Server) copyVolume(
	ctx context.Context, job seedbed.JobID, a seedbed.VolumeCopy, progress func(seedbed.Progress),
) (info seedbed.VolumeInfo, err error) {
	pool, err := s.owned(a.Pool, a.Instance)
	if err != nil {
		return info, err
	}
	if a.FromPool == "" || a.FromPool == a.Pool {
		return pool.CopyVolume(ctx, job, a, progress)
	}
	from, err := s.owned(a.FromPool, a.Of)
	if err != nil {
		return info, err
	}
	return Transfer(ctx, job, from, pool, a, progress)
}

// FillUploaded makes a volume with the disk in a file that was uploaded to its pool, which stays. A second call of the same job finds the
// volume. Errors: those of Spooler.OpenUpload and Archiver.FillVolume, ErrInvalid if the disk is larger than the volume.
func FillUploaded(ctx context.Context, job seedbed.JobID, pool interface {
	Archiver
	Spooler
}, a effects.UploadedVolume, progress func(seedbed.Progress),
) (seedbed.VolumeInfo, error) {
	return pool.FillVolume(ctx, job, a.VolumeSpec, "upload:"+a.Upload, func(ctx context.Context, sink backup.Sink) error {
		src, err := pool.OpenUpload(ctx, a.Upload, a.Format)
		if err != nil {
			return err
		}
		if a.Size < src.Size() {
			err = seedbed.Errorf(seedbed.ErrInvalid, "size %s of volume %s is below that of the uploaded disk, %s", a.Size, a.Name, src.Size())
		} else {
			err = backup.Copy(ctx, src, sink, progress)
		}
		return errors.Join(err, src.Close())
	})
}
