package worker

import (
	"cmp"
	"context"
	"errors"

	"seedbed"
	"seedbed/provision/effects"
)

// handleVolumes adds the effects on volumes and their snapshots.
func (s *Server) handleVolumes(h effects.Handlers) {
	effects.CloneVolume.Handle(h, func(
		ctx context.Context, c seedbed.Call, a seedbed.VolumeSpec, _ effects.Listener,
	) (info seedbed.VolumeInfo, err error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return info, err
		}
		return pool.CloneVolume(ctx, c.Job, a)
	})
	effects.CopyVolume.Handle(h, func(
		ctx context.Context, c seedbed.Call, a seedbed.VolumeCopy, to effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return s.copyVolume(ctx, c.Job, a, to.Progress)
	})
	effects.FillVolume.Handle(h, func(
		ctx context.Context, c seedbed.Call, a effects.UploadedVolume, to effects.Listener,
	) (info seedbed.VolumeInfo, err error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return info, err
		}
		return FillUploaded(ctx, c.Job, pool, a, to.Progress)
	})
	effects.ExportVolume.Handle(h, func(
		ctx context.Context, c seedbed.Call, a effects.VolumeExport, to effects.Listener,
	) (seedbed.Bytes, error) {
		pool, err := s.owned(a.Pool, a.Source.Of)
		if err != nil {
			return 0, err
		}
		return Export(ctx, c.Job, pool, a, to.Progress)
	})
	effects.OpenVolumeFile.Handle(h, s.sendFile)
	effects.RemoveVolume.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.VolumeRef) error {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return err
		}
		return pool.RemoveVolume(ctx, a.Name, a.Instance)
	})
	effects.ResizeVolume.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.VolumeSize, _ effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return s.resize(ctx, a)
	})
	effects.FlattenVolume.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.VolumeRef, to effects.Listener,
	) (info seedbed.VolumeInfo, err error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return info, err
		}
		return pool.FlattenVolume(ctx, a.Name, a.Instance, to.Progress)
	})
	effects.StopFlatten.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.VolumeRef) error {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return err
		}
		return pool.StopFlatten(ctx, a.Name, a.Instance)
	})
	effects.CreateSnapshot.Handle(h, func(
		ctx context.Context, c seedbed.Call, a seedbed.SnapshotSpec, _ effects.Listener,
	) (info seedbed.SnapshotInfo, err error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return info, err
		}
		return pool.CreateSnapshot(ctx, c.Job, a)
	})
	HandleOpenSnapshots(h, s.hypervisor, s.log, s.owned)
	effects.RestoreSnapshot.Handle(h, func(ctx context.Context, _ seedbed.Call, a seedbed.SnapshotSpec) error {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return err
		}
		return pool.RestoreSnapshot(ctx, a)
	})
	effects.Volume.Handle(h, func(ctx context.Context, a effects.VolumeRef) (info seedbed.VolumeInfo, err error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return info, err
		}
		return pool.Volume(ctx, a.Name, a.Instance)
	})
	effects.Snapshots.Handle(h, func(ctx context.Context, a effects.VolumeRef) ([]seedbed.SnapshotInfo, error) {
		pool, err := s.owned(a.Pool, a.Instance)
		if err != nil {
			return nil, err
		}
		return pool.Snapshots(ctx, a.Name, a.Instance)
	})
}

// handleImages adds the effects on images and uploaded files.
func (s *Server) handleImages(h effects.Handlers) {
	effects.ImportImage.Handle(h, func(
		ctx context.Context, c seedbed.Call, a seedbed.ImageSpec, to effects.Listener,
	) (info seedbed.ImageInfo, err error) {
		pool, err := s.pool(a.Pool)
		if err != nil {
			return info, err
		}
		return pool.ImportImage(ctx, c.Job, a, to.Progress)
	})
	effects.CheckImport.Handle(h, func(ctx context.Context, a seedbed.ImageSpec) (check effects.ImportCheck, err error) {
		pool, err := s.pool(a.Pool)
		if err != nil {
			return check, err
		}
		if err = pool.CheckImport(ctx, a); errors.Is(err, seedbed.ErrNotFound) || errors.Is(err, seedbed.ErrInvalid) {
			return effects.ImportCheck{Problem: err.Error()}, nil
		}
		return check, err
	})
	effects.RemoveImage.Handle(h, func(ctx context.Context, c seedbed.Call, a effects.ImageRef) error {
		pool, err := s.pool(a.Pool)
		if err != nil {
			return err
		}
		return pool.RemoveImage(ctx, cmp.Or(a.Of, c.Job), a.Name)
	})
	effects.ImageDisk.Handle(h, func(ctx context.Context, a effects.ImageRef) (disk seedbed.Disk, err error) {
		pool, err := s.pool(a.Pool)
		if err != nil {
			return disk, err
		}
		return pool.ImageDisk(ctx, a.Name)
	})
	effects.DropUpload.Handle(h, func(ctx context.Context, a effects.UploadRef) (none effects.None, err error) {
		pool, err := s.pool(a.Pool)
		if err != nil {
			return none, err
		}
		return none, pool.DropUpload(ctx, a.ID)
	})
}

// owned returns the pool of an instance's volume.
func (s *Server) owned(pool string, id seedbed.InstanceID) (Pool, error) {
	p, err := s.pool(pool)
	if err == nil {
		err = checkInstance(id)
	}
	return p, err
}
