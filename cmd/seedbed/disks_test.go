package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"seedbed"
	"seedbed/provision/backup"
	"seedbed/provision/worker/drivertest"
	"seedbed/store"
)

// disks holds the volumes of the world's instances. Each of two nodes has a pool in memory, which
// keeps removed volumes for three days.
type disks struct {
	db    *store.DB
	pools map[string]*drivertest.Pool
}

func newDisks(db *store.DB) disks {
	d := disks{db, map[string]*drivertest.Pool{"hv1": drivertest.NewPool(), "hv2": drivertest.NewPool()}}
	for _, p := range d.pools {
		p.SetTrash(72 * time.Hour)
	}
	return d
}

// on returns the pool of a node, or of the first node if node is empty.
func (d disks) on(node string) *drivertest.Pool { return d.pools[cmp.Or(node, "hv1")] }

// effect applies a job to the volumes.
func (d disks) effect(ctx context.Context, job *seedbed.Job) error {
	if job.Kind == seedbed.JobBackupRemove {
		return d.removeBackups(ctx, job)
	}
	if job.Instance == "" {
		return nil
	}
	inst, err := d.db.Instance(ctx, job.Instance)
	if err != nil {
		return err
	}
	if job.Kind == seedbed.JobBackup {
		return d.backUp(ctx, job, inst)
	}
	var input seedbed.SnapshotJob
	if len(job.Spec) > 0 {
		if err := json.Unmarshal(job.Spec, &input); err != nil {
			return err
		}
	}
	for _, v := range inst.Volumes {
		snapshot := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: inst.ID, Name: input.Name}
		pool := d.on(inst.Node)
		switch job.Kind {
		case seedbed.JobCreate, seedbed.JobBackupRestore, seedbed.JobClone:
			_, err = pool.CloneVolume(ctx, job.ID, seedbed.VolumeSpec{Pool: v.Pool, Name: v.Name, Instance: inst.ID, Size: v.Size})
		case seedbed.JobRemove:
			_, err = pool.TrashVolume(ctx, v.Name, inst.ID)
		case seedbed.JobFlatten:
			_, err = pool.FlattenVolume(ctx, v.Name, inst.ID, nil)
		case seedbed.JobSnapshot:
			_, err = pool.CreateSnapshot(ctx, job.ID, snapshot)
		case seedbed.JobSnapshotRestore:
			err = pool.RestoreSnapshot(ctx, snapshot)
		case seedbed.JobSnapshotRemove:
			err = pool.RemoveSnapshot(ctx, snapshot, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backUp writes a backup as its job does.
func (d disks) backUp(ctx context.Context, job *seedbed.Job, inst seedbed.Instance) error {
	var input seedbed.BackupJob
	if err := json.Unmarshal(job.Spec, &input); err != nil {
		return err
	}
	target, err := d.db.BackupTarget(ctx, input.Target)
	if err != nil {
		return err
	}
	m := seedbed.BackupManifest{Node: inst.Node, Installation: "world", BackupHead: seedbed.BackupHead{
		BackupKey: seedbed.BackupKey{Instance: inst.ID, Backup: input.Backup}, Time: time.Now(), Name: inst.Name, Project: inst.Project}}
	if m.Config, err = json.Marshal(seedbed.BackupConfigOf(inst, "")); err != nil {
		return err
	}
	return drivertest.InTarget(ctx, target, func(p *backup.Place) error {
		for i, v := range inst.Volumes {
			spec := seedbed.SnapshotSpec{Pool: v.Pool, Volume: v.Name, Instance: inst.ID, Name: "of-" + job.ID.Short()}
			if _, err := d.on(inst.Node).CreateSnapshot(ctx, job.ID, spec); err != nil {
				return err
			}
			src, err := d.on(inst.Node).OpenSnapshot(ctx, spec, "")
			if err != nil {
				return err
			}
			disk, err := p.Write(ctx, seedbed.BackupDiskKey{BackupKey: m.BackupKey, Disk: i}, src, nil, nil)
			if err := errors.Join(err, src.Close(), d.on(inst.Node).RemoveSnapshot(ctx, spec, "")); err != nil {
				return err
			}
			m.Disks, m.Size = append(m.Disks, disk), m.Size+disk.Size
		}
		return p.WriteManifest(ctx, m)
	})
}

func (d disks) removeBackups(ctx context.Context, job *seedbed.Job) error {
	var input seedbed.BackupWork
	if err := json.Unmarshal(job.Spec, &input); err != nil {
		return err
	}
	target, err := d.db.BackupTarget(ctx, input.Target)
	if err != nil {
		return err
	}
	return drivertest.InTarget(ctx, target, func(p *backup.Place) error {
		var failed []error
		for _, key := range input.Backups {
			_, err := p.Remove(ctx, key)
			failed = append(failed, err)
		}
		return errors.Join(failed...)
	})
}

// Snapshots implements server.Snapshots.
func (d disks) Snapshots(ctx context.Context, node, _, volume string, id seedbed.InstanceID) ([]seedbed.SnapshotInfo, error) {
	return d.on(node).Snapshots(ctx, volume, id)
}

// Trash implements server.Trash.
func (d disks) Trash(ctx context.Context, node string) (all []seedbed.TrashItem, err error) {
	for _, name := range slices.Sorted(maps.Keys(d.pools)) {
		if node != "" && node != name {
			continue
		}
		items, err := d.on(name).Trash(ctx)
		if err != nil {
			return nil, err
		}
		volumes, err := d.on(name).Volumes(ctx)
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			if v.Restored {
				items = append(items, seedbed.TrashItem{Pool: v.Pool, Name: v.Name, State: seedbed.Restored, Instance: v.Instance, Size: v.Size})
			}
		}
		for _, i := range items {
			i.Node = name
			all = append(all, i)
		}
	}
	return all, nil
}

// RestoreVolume implements server.Trash.
func (d disks) RestoreVolume(ctx context.Context, node, _, id string) (seedbed.VolumeInfo, error) {
	return d.on(node).RestoreVolume(ctx, id)
}

// DiscardVolume implements server.Trash.
func (d disks) DiscardVolume(ctx context.Context, node, pool, name string) (*seedbed.TrashItem, error) {
	volumes, err := d.on(node).Volumes(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		if v.Name == name && v.Restored {
			return d.on(node).TrashVolume(ctx, name, v.Instance)
		}
	}
	return nil, seedbed.Errorf(seedbed.ErrNotFound, "volume %q is not in pool %s", name, pool)
}

// PurgeVolume implements server.Trash.
func (d disks) PurgeVolume(ctx context.Context, item seedbed.TrashItem, early bool) error {
	return d.on(item.Node).PurgeVolume(ctx, item.ID, early)
}

// ReceiveUpload implements server.Uploads.
func (d disks) ReceiveUpload(ctx context.Context, spec seedbed.UploadSpec, body io.Reader) (seedbed.Upload, error) {
	return d.on("").ReceiveUpload(ctx, spec, body)
}

// DropUpload implements server.Uploads.
func (d disks) DropUpload(ctx context.Context, up seedbed.Upload) error {
	return d.on("").DropUpload(ctx, up.ID)
}

// ova returns the disks of the OVA that a job imports.
func (d disks) ova(job *seedbed.Job) []seedbed.OVAVolume {
	var input seedbed.OVAJob
	if err := json.Unmarshal(job.Spec, &input); err != nil {
		panic(err) // the intake wrote it
	}
	return input.Volumes
}

var targets = drivertest.Targets{Node: "hv1"}
