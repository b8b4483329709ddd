package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/effects"
)

// Archiver reads volumes, for backups and other pools, and makes volumes from what was read.
type Archiver interface {
	// OpenSnapshot opens what a volume contained at a snapshot, for reading. base is the name of an earlier snapshot of the volume, or
	// empty. The volume may be in use; it must not be removed before the source is closed. Errors: ErrNotFound without the volume or the
	// snapshot, ErrConflict for another instance's volume. A base that does not exist counts as none.
	OpenSnapshot(ctx context.Context, spec seedbed.SnapshotSpec, base string) (backup.Source, error)
	// OpenVolume opens what a volume contains at one moment of the call, or contained at its snapshot s.At, for reading. It must not be
	// removed before the source is closed. Afterwards RemoveSnapshot removes what the driver may have taken for job: s.Snapshot. Errors:
	// those of OpenSnapshot, ErrInUse if the driver cannot read a volume that is in use, ErrFull without room.
	OpenVolume(ctx context.Context, job seedbed.JobID, s seedbed.CopySource) (backup.Source, error)
	// FillVolume makes a blank volume like CloneVolume, and has fill write to it. from is what it is a copy of: an existing volume with the
	// same name, instance, from and size is returned unchanged. After an error no partly made volume is left.
	FillVolume(
		ctx context.Context, job seedbed.JobID, spec seedbed.VolumeSpec, from string, fill func(context.Context, backup.Sink) error,
	) (seedbed.VolumeInfo, error)
}

// archive carries out the effects on backups.
type archive struct {
	pool   func(name string, id seedbed.InstanceID) (Archiver, error)
	places *places
}

// HandleBackups adds the effects on backups. pool returns the pool of that name for a call on a volume of that instance.
func HandleBackups(h effects.Handlers, allowed Backups, log *slog.Logger, pool func(string, seedbed.InstanceID) (Archiver, error)) {
	s := &archive{pool: pool, places: &places{allowed: allowed, log: log, used: map[string]*mounted{}}}
	effects.CheckBackupPlace.Handle(h, func(ctx context.Context, a seedbed.BackupPlace) (info seedbed.BackupPlaceInfo, err error) {
		err = s.places.use(ctx, a, func(ctx context.Context) (err error) {
			info, err = backup.Check(ctx, a)
			return err
		})
		return info, err
	})
	effects.BackupVolume.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.VolumeBackup, to effects.Listener,
	) (seedbed.BackupDisk, error) {
		return s.backup(ctx, a, to.Progress)
	})
	effects.RestoreBackup.Handle(h, func(
		ctx context.Context, c seedbed.Call, a effects.BackupRestore, to effects.Listener,
	) (seedbed.VolumeInfo, error) {
		return s.restore(ctx, c.Job, a, to.Progress)
	})
	effects.VerifyBackup.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.BackupSelection, to effects.Listener,
	) (seedbed.BackupCheck, error) {
		return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (seedbed.BackupCheck, error) {
			return p.Verify(ctx, backup.Selection{Instance: a.Instance, Keys: a.Keys}, to.Progress)
		})
	})
	effects.WriteManifest.Handle(h, func(ctx context.Context, _ seedbed.Call, a effects.NewManifest) error {
		_, err := inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (effects.None, error) {
			return effects.None{}, p.WriteManifest(ctx, a.Manifest)
		})
		return err
	})
	effects.ReadManifest.Handle(h, func(ctx context.Context, a effects.BackupRef) (seedbed.BackupManifest, error) {
		return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (seedbed.BackupManifest, error) {
			return p.ReadManifest(ctx, a.Key)
		})
	})
	effects.ListBackups.Handle(h, func(ctx context.Context, a effects.BackupSelection) (seedbed.BackupList, error) {
		return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (seedbed.BackupList, error) {
			return p.List(ctx, backup.Selection{Instance: a.Instance, Keys: a.Keys})
		})
	})
	effects.RemoveBackup.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.BackupRef, _ effects.Listener,
	) (effects.BackupRemoved, error) {
		return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (effects.BackupRemoved, error) {
			refusal, err := p.Remove(ctx, a.Key)
			return effects.BackupRemoved{Refusal: refusal}, err
		})
	})
	effects.SweepBackups.Handle(h, func(
		ctx context.Context, _ seedbed.Call, a effects.BackupSweep, to effects.Listener,
	) (seedbed.BackupSwept, error) {
		if a.Grace < effects.MinBackupGrace {
			return seedbed.BackupSwept{}, seedbed.Errorf(seedbed.ErrInvalid, "grace of a sweep is %s: expected at least %s", a.Grace,
				effects.MinBackupGrace)
		}
		return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (seedbed.BackupSwept, error) {
			return p.Sweep(ctx, a.Grace, to.Progress)
		})
	})
}

// inPlace calls f with an open place.
func inPlace[T any](
	ctx context.Context, s *archive, at seedbed.BackupPlace, f func(context.Context, *backup.Place) (T, error),
) (T, error) {
	var result, none T
	used := false
	err := s.places.use(ctx, at, func(ctx context.Context) error {
		used = true
		p, err := backup.Open(ctx, at)
		if err != nil {
			return err
		}
		result, err = f(ctx, p)
		return errors.Join(err, p.Close())
	})
	if err != nil {
		return none, s.veiled(at, used, err)
	}
	return result, nil
}

// veiled is an error that does not say where a place is: what fails in a job is shown to those who asked for it.
type veiled struct {
	error
	text string
}

func (e veiled) Error() string { return e.text }
func (e veiled) Unwrap() error { return e.error }

func (s *archive) veiled(at seedbed.BackupPlace, used bool, err error) error {
	if !used && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) { // its commands failed, or are not allowed
		s.places.log.Warn("a place of backups cannot be used", "path", at.Path, "url", at.URL, "err", err)
		return veiled{err, "the target cannot be used on this node: seedbed backup target check, and the log of the worker, say why"}
	}
	text := err.Error()
	for _, where := range []string{at.Path, strings.TrimSuffix(at.URL, "/"), strings.TrimPrefix(strings.TrimPrefix(
		strings.TrimSuffix(at.URL, "/"), "https://"), "http://")} {
		if where != "" {
			text = strings.ReplaceAll(text, where, "the target")
		}
	}
	return veiled{err, text}
}

// backup writes a volume to a place.
func (s *archive) backup(
	ctx context.Context, a effects.VolumeBackup, progress func(seedbed.Progress),
) (disk seedbed.BackupDisk, err error) {
	pool, err := s.pool(a.Of.Pool, a.Of.Instance)
	if err != nil {
		return disk, err
	}
	return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (disk seedbed.BackupDisk, err error) {
		src, err := pool.OpenSnapshot(ctx, a.Of, a.Base)
		if err != nil {
			return disk, err
		}
		disk, err = p.Write(ctx, a.Key, src, a.BaseKey, progress)
		if e := src.Close(); err == nil {
			err = e
		}
		return disk, err
	})
}

// restore makes a volume from a disk of a backup.
func (s *archive) restore(
	ctx context.Context, job seedbed.JobID, a effects.BackupRestore, progress func(seedbed.Progress),
) (info seedbed.VolumeInfo, err error) {
	pool, err := s.pool(a.Volume.Pool, a.Volume.Instance)
	if err != nil {
		return info, err
	}
	if a.Volume.Image != "" {
		return info, seedbed.Errorf(seedbed.ErrInvalid, "a volume that is restored from a backup has no image, not %q", a.Volume.Image)
	}
	return inPlace(ctx, s, a.Place, func(ctx context.Context, p *backup.Place) (info seedbed.VolumeInfo, err error) {
		size, err := p.DiskSize(ctx, a.Key, a.Index)
		if err != nil {
			return info, err
		}
		spec := a.Volume
		if spec.Size == 0 {
			spec.Size = size
		}
		if spec.Size < size {
			return info, seedbed.Errorf(seedbed.ErrInvalid, "size %s of volume %s is below that of the disk in the backup, %s", spec.Size, spec.Name,
				size)
		}
		return pool.FillVolume(ctx, job, spec, "backup:"+a.Key.String(), func(ctx context.Context, to backup.Sink) error {
			return p.Restore(ctx, a.Key, a.Index, to, progress)
		})
	})
}
