package plans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"seedbed"
	"seedbed/provision/effects"
	"seedbed/provision/engine"
)

// backupPlan copies the disks of an instance to a target, as they are at one moment. The backup exists once its manifest is written, which
// comes last.
func (t *task) backupPlan() engine.Plan {
	return engine.Plan{Stages: []engine.Stage{
		{Name: "snapshot", Run: t.snapshotBackup, Undo: t.dropBackupSnapshots},
		{Name: "back-up", Run: t.backUp, Undo: t.unmakeBackup},
		{Name: "delete-snapshot", Run: t.tidySnapshots, Final: true},
	}}
}

// backupRestorePlan makes an instance whose disks have the content of a backup.
func (t *task) backupRestorePlan() engine.Plan {
	stages := t.definedStages()
	stages[0] = engine.Stage{Name: "restore", Run: t.restoreBackup, Undo: t.undoVolumes, Made: t.madeVolumes}
	stages[1].Run = t.defineRestored
	return engine.Plan{Stages: stages, Broken: seedbed.InstanceFailed}
}

// place decodes the job's input into spec and returns the place of the target that name chooses of it.
func (t *task) backupPlace(ctx context.Context, spec any, name *string) (place seedbed.BackupPlace, err error) {
	if err := t.input(spec); err != nil {
		return place, err
	}
	target, err := t.store.BackupTarget(ctx, *name)
	if err != nil {
		return place, engine.FromStore(err)
	}
	return target.Place(), nil
}

// backup returns the input of a backup job, the place that it writes to, and its instance.
func (t *task) backup(ctx context.Context) (job seedbed.BackupJob, place seedbed.BackupPlace, inst seedbed.Instance, err error) {
	if place, err = t.backupPlace(ctx, &job, &job.Target); err == nil {
		inst, err = t.Instance(ctx)
	}
	return job, place, inst, err
}

// backupDisk is a volume that is in a backup, with the snapshot that is read.
type backupDisk struct {
	of       seedbed.SnapshotSpec
	disk     int // its number in the backup
	size     seedbed.Bytes
	attached string // the name of a volume that is attached
}

// backupDisks returns what is in the job's backup: the disks that the instance was made with, and then the volumes that are attached.
func backupDisks(inst seedbed.Instance, job seedbed.BackupJob) (all []backupDisk) {
	for i, v := range inst.Volumes {
		of := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: inst.ID, Name: seedbed.BackupSnapshot(job.Target, job.Backup)}
		all = append(all, backupDisk{of: of, disk: i, size: v.Size})
	}
	for _, v := range inst.Attached {
		if slices.Contains(job.Exclude, v.Name) {
			continue
		}
		of := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Volume, Instance: v.Owner,
			Name: seedbed.AttachedBackupSnapshot(job.Target, job.Backup, len(all))}
		all = append(all, backupDisk{of: of, disk: len(all), size: v.Size, attached: v.Name})
	}
	return all
}

// snapshotsOfBackup returns the snapshots that the disks of the job's backup are read from.
func (t *task) snapshotsOfBackup(ctx context.Context) (all []seedbed.SnapshotSpec, err error) {
	var job seedbed.BackupJob
	if err := t.input(&job); err != nil {
		return nil, err
	}
	inst, err := t.Instance(ctx)
	for _, d := range backupDisks(inst, job) {
		all = append(all, d.of)
	}
	return all, err
}

func (t *task) snapshotBackup(ctx context.Context) error {
	all, err := t.snapshotsOfBackup(ctx)
	if err != nil {
		return err
	}
	return t.consistently(ctx, t.own(), seedbed.FreezeAuto, all)
}

func (t *task) dropBackupSnapshots(ctx context.Context) error {
	t.thawLeft(ctx, t.own())
	all, err := t.snapshotsOfBackup(ctx)
	if err != nil {
		return err
	}
	return t.eachOf(ctx, all, "snapshot %s of volume %s is removed", t.drop)
}

// backUp writes each volume, and then the manifest. A second call finds what the first one has written in the place.
func (t *task) backUp(ctx context.Context) error {
	job, place, inst, err := t.backup(ctx)
	if err != nil {
		return err
	}
	before, err := effects.ListBackups.Ask(ctx, t.Worker(), effects.BackupSelection{Place: place, Instance: inst.ID})
	if err != nil {
		return fmt.Errorf("target %s: %w", job.Target, err)
	}
	manifest := seedbed.BackupManifest{Node: t.Node(), BackupHead: seedbed.BackupHead{
		BackupKey: seedbed.BackupKey{Instance: inst.ID, Backup: job.Backup}, Name: inst.Name, Project: inst.Project}}
	var total, done seedbed.Bytes
	disks := backupDisks(inst, job)
	for _, d := range disks {
		total += d.size
	}
	report := t.percent("backing up")
	for _, d := range disks {
		v := d.of
		order := effects.VolumeBackup{Of: v, Place: place, Key: seedbed.BackupDiskKey{BackupKey: manifest.BackupKey, Disk: d.disk}}
		taken, err := t.baseOf(ctx, &order, d, job, before)
		if err != nil {
			return fmt.Errorf("volume %s of pool %s: %w", v.Volume, v.Pool, err)
		}
		if d.disk == 0 {
			manifest.Time = taken.Created
		}
		var disk seedbed.BackupDisk
		err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			disk, err = effects.BackupVolume.Do(ctx, t.Worker(), call, order, effects.OnProgress(func(p seedbed.Progress) {
				report(seedbed.Progress{Done: done + p.Done, Total: total})
			}))
			return err
		})
		if err != nil {
			return fmt.Errorf("back up volume %s of pool %s to target %s: %w", v.Volume, v.Pool, job.Target, err)
		}
		done += d.size
		manifest.Disks, manifest.Size, manifest.Stored = append(manifest.Disks, disk), manifest.Size+disk.Size, manifest.Stored+disk.Stored
		t.Event("info", seedbed.Progress{Done: done, Total: total}.Percent(), "volume %s is backed up: %s of %s read, %d of %d chunks new (%s)",
			v.Volume, disk.Read, disk.Size, disk.New, disk.Chunks, disk.Stored)
	}
	if err := t.describe(ctx, &manifest, inst, disks); err != nil {
		return err
	}
	err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
		return effects.WriteManifest.Do(ctx, t.Worker(), call, effects.NewManifest{Place: place, Manifest: manifest})
	})
	if err != nil {
		return fmt.Errorf("write the manifest to target %s: %w", job.Target, err)
	}
	t.Event("info", 100, "backup %s is in target %s", job.Backup, job.Target)
	return nil
}

// baseOf has a volume be read by what has changed since the newest backup of it in the target whose snapshot it still has. It returns the
// snapshot that is read.
func (t *task) baseOf(
	ctx context.Context, order *effects.VolumeBackup, d backupDisk, job seedbed.BackupJob, before seedbed.BackupList,
) (taken seedbed.SnapshotInfo, err error) {
	of := order.Of
	all, err := effects.Snapshots.Ask(ctx, t.Worker(), effects.VolumeRef{Pool: of.Pool, Name: of.Volume, Instance: of.Instance})
	if err != nil {
		return taken, err
	}
	has := func(name string) int {
		return slices.IndexFunc(all, func(s seedbed.SnapshotInfo) bool { return s.Name == name })
	}
	if at := has(of.Name); at >= 0 {
		taken = all[at]
	}
	order.Base, order.BaseKey = baseAmong(before.Backups, d, job, func(name string) bool { return has(name) >= 0 })
	return taken, nil
}

// baseAmong returns the snapshot of the newest backup of a disk that the volume still has, and which disk of that backup it is of. Only
// the name of the snapshot says that of an attached volume: it may have been another disk then.
func baseAmong(
	before []seedbed.BackupHead, d backupDisk, job seedbed.BackupJob, has func(snapshot string) bool,
) (string, *seedbed.BackupDiskKey) {
	if job.Full {
		return "", nil
	}
	for _, b := range slices.Backward(before) {
		if b.Backup == job.Backup {
			continue
		}
		key := seedbed.BackupDiskKey{BackupKey: b.BackupKey, Disk: d.disk}
		if base := seedbed.BackupSnapshot(job.Target, b.Backup); d.attached == "" && has(base) {
			return base, &key
		}
		for key.Disk = range seedbed.MaxBackupDisks {
			if base := seedbed.AttachedBackupSnapshot(job.Target, b.Backup, key.Disk); d.attached != "" && has(base) {
				return base, &key
			}
		}
	}
	return "", nil
}

// describe adds to a manifest what the instance is.
func (t *task) describe(ctx context.Context, m *seedbed.BackupManifest, inst seedbed.Instance, disks []backupDisk) (err error) {
	if m.Installation, err = t.store.Installation(ctx); err != nil {
		return engine.FromStore(err)
	}
	firmware, err := t.firmware(ctx, inst)
	if err != nil {
		return err
	}
	switch _, err := t.store.ScriptDomain(ctx, inst.ID); {
	case err == nil:
		t.Event("warn", t.Progress(),
			"a script made the definition of domain %s, which is not in the backup: a restored instance has an ordinary one", inst.Name)
	case !errors.Is(err, seedbed.ErrNotFound):
		return engine.FromStore(err)
	}
	c := seedbed.BackupConfigOf(inst, firmware)
	for _, d := range disks[len(inst.Volumes):] {
		c.Volumes = append(slices.Clip(c.Volumes), seedbed.Volume{Pool: d.of.Pool, Name: d.of.Volume, Index: d.disk, Size: d.size})
		c.Attached = append(c.Attached, d.attached)
	}
	if m.Config, err = json.Marshal(c); err != nil {
		return fmt.Errorf("encode the configuration of %s: %w", inst.Name, err)
	}
	return nil
}

// unmakeBackup removes what the job has written, apart from chunks, which the next sweep removes.
func (t *task) unmakeBackup(ctx context.Context) error {
	job, place, inst, err := t.backup(ctx)
	if errors.Is(err, seedbed.ErrNotFound) { // the target was removed in the meantime
		t.Event("warn", t.Progress(), "%s: what the job has written there stays", err)
		return nil
	}
	if err != nil {
		return err
	}
	return t.removeBackup(ctx, job.Target, effects.BackupRef{Place: place, Key: seedbed.BackupKey{Instance: inst.ID, Backup: job.Backup}})
}

func (t *task) removeBackup(ctx context.Context, target string, b effects.BackupRef) error {
	var removed effects.BackupRemoved
	err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
		removed, err = effects.RemoveBackup.Do(ctx, t.Worker(), call, b)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove backup %s from target %s: %w", b.Key.Backup, target, err)
	}
	if removed.Refusal != "" { // as of an object lock, which ends by itself
		t.Event("warn", t.Progress(), "backup %s stays in target %s, which does not let it be removed: %s", b.Key.Backup, target, removed.Refusal)
		return nil
	}
	t.Event("info", t.Progress(), "backup %s is not in target %s any more", b.Key.Backup, target)
	return nil
}

// tidySnapshots removes the snapshots for earlier backups in the target, and for those in targets that were removed. The one of this job
// stays if the next backup can be read by what has changed since, as in a Ceph pool.
func (t *task) tidySnapshots(ctx context.Context) error {
	job, _, inst, err := t.backup(ctx)
	if err != nil && !errors.Is(err, seedbed.ErrNotFound) {
		return err
	}
	if err != nil { // the target was removed in the meantime
		return t.dropBackupSnapshots(ctx)
	}
	for _, d := range backupDisks(inst, job) {
		v := d.of
		ref := effects.VolumeRef{Pool: v.Pool, Name: v.Volume, Instance: v.Instance}
		info, err := effects.Volume.Ask(ctx, t.Worker(), ref)
		if err != nil {
			return fmt.Errorf("volume %s of pool %s: %w", v.Volume, v.Pool, err)
		}
		all, err := effects.Snapshots.Ask(ctx, t.Worker(), ref)
		if err != nil {
			return fmt.Errorf("volume %s of pool %s: %w", v.Volume, v.Pool, err)
		}
		for _, s := range all {
			own := s.Name == v.Name
			due, err := t.outOfDate(ctx, seedbed.SnapshotTarget(s.Name), job.Target)
			if err != nil {
				return err
			}
			if !due || own && info.Disk.Type == "rbd" {
				continue
			}
			spec := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Volume, Instance: v.Instance, Name: s.Name}
			err = t.Effect(ctx, func(ctx context.Context, call seedbed.Call) error {
				return t.remove(ctx, call, inst.ID, spec, s.Job)
			})
			if err != nil {
				return fmt.Errorf("remove snapshot %s of volume %s: %w", s.Name, v.Volume, err)
			}
			t.Event("info", t.Progress(), "snapshot %s of volume %s is removed", s.Name, v.Volume)
		}
	}
	return nil
}

// outOfDate reports whether a snapshot for a backup in the target of is not needed after a backup in the target now.
func (t *task) outOfDate(ctx context.Context, of, now string) (bool, error) {
	if of == "" || of == now {
		return of != "", nil
	}
	_, err := t.store.BackupTarget(ctx, of)
	if errors.Is(err, seedbed.ErrNotFound) {
		return true, nil
	}
	return false, engine.FromStore(err)
}

// restoreBackup makes the volumes of the instance with the content of the backup's disks.
func (t *task) restoreBackup(ctx context.Context) error {
	var job seedbed.BackupRestore
	place, err := t.backupPlace(ctx, &job, &job.Target)
	if err != nil {
		return err
	}
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	m, err := effects.ReadManifest.Ask(ctx, t.Worker(), effects.BackupRef{Place: place, Key: job.Backup})
	if err != nil {
		return fmt.Errorf("backup %s in target %s: %w", job.Backup.Backup, job.Target, err)
	}
	if len(m.Disks) != len(inst.Volumes) {
		return seedbed.Errorf(seedbed.ErrConflict, "backup %s has %d disks, and had %d when the job was accepted", job.Backup.Backup,
			len(m.Disks), len(inst.Volumes))
	}
	var done seedbed.Bytes
	report := t.percent("restoring")
	for i, v := range inst.Volumes {
		order := effects.BackupRestore{Volume: volumeOf(inst, v), Place: place, Index: m.Disks[i].Index,
			Key: seedbed.BackupDiskKey{BackupKey: job.Backup, Disk: m.Disks[i].Disk}}
		var info seedbed.VolumeInfo
		err := t.Effect(ctx, func(ctx context.Context, call seedbed.Call) (err error) {
			info, err = effects.RestoreBackup.Do(ctx, t.Worker(), call, order, effects.OnProgress(func(p seedbed.Progress) {
				report(seedbed.Progress{Done: done + p.Done, Total: m.Size})
			}))
			return err
		})
		if err != nil {
			return fmt.Errorf("restore volume %s of pool %s: %w", v.Name, v.Pool, err)
		}
		done += v.Size
		t.Event("info", seedbed.Progress{Done: done, Total: m.Size}.Percent(), "volume %s is restored (%s in pool %s)", v.Name, info.Size, v.Pool)
	}
	return nil
}

// defineRestored defines the domain with the volumes that were restored.
func (t *task) defineRestored(ctx context.Context) error {
	inst, err := t.Instance(ctx)
	if err != nil {
		return err
	}
	disks := make([]seedbed.Disk, len(inst.Volumes))
	for i, v := range inst.Volumes {
		info, err := effects.Volume.Ask(ctx, t.Worker(), effects.VolumeRef{Pool: v.Pool, Name: v.Name, Instance: inst.ID})
		if err != nil {
			return fmt.Errorf("volume %s of pool %s: %w", v.Name, v.Pool, err)
		}
		disks[i] = info.Disk
	}
	return t.define(ctx, inst, disks, nil)
}
